//! Calls and results held against the schemas of their tools, where that is asked for: of a command what it takes, of a server
//! what its tools' definitions say.

use std::sync::OnceLock;

use serde_json::Value;
use serde_json::value::RawValue;
use taskgate_engine::Ending;
use taskgate_task::{Outcome, Payload};
use taskgate_wire::{ListKind, RawObject};

use super::ending::{cut, refused};
use super::schema::invalid_arguments;
use super::{ToolSchema, Upstream};
use crate::policy::{CheckOutput, UpstreamKind};

/// The longest complaint about a result, in characters. It is a status line, too.
const LONGEST: usize = 600;

/// The schemas of a listed tool, compiled when they are first asked for.
#[derive(Debug, Default)]
pub struct Schemas(OnceLock<Compiled>);

#[derive(Debug)]
struct Compiled {
    input: Option<ToolSchema>,
    output: Option<ToolSchema>,
}

impl Schemas {
    fn of(&self, definition: &Payload) -> &Compiled {
        self.0.get_or_init(|| {
            let definition: Value = serde_json::from_str(definition.as_str()).unwrap_or_default();
            let compiled = |member: &str| {
                let schema = ToolSchema::new(definition.get(member)?);
                // What the server has written wrong is no fault of its callers.
                let told =
                    |error| tracing::warn!(tool = %definition["name"], %error, "{member} is not checked");
                schema.map_err(told).ok()
            };
            Compiled { input: compiled("inputSchema"), output: compiled("outputSchema") }
        })
    }
}

impl Upstream {
    /// Whether a call's arguments are such as its tool takes, by the upstream's own name for it; if not, what their sender is
    /// told. Of a command or a job that is always asked, of a server's tool where its policy says so.
    pub fn check_arguments(&self, tool: &str, arguments: Option<&RawValue>) -> Result<(), String> {
        let arguments = arguments.map_or("{}", RawValue::get);
        let spec = self.spec();
        match &spec.kind {
            UpstreamKind::Command(command) => return command.accept(arguments).map(drop),
            UpstreamKind::Job(job) => return job.accept(arguments),
            UpstreamKind::Process(_) | UpstreamKind::Http(_) | UpstreamKind::InProcess(_) => {}
        }
        if !spec.policy_of(tool).check_arguments {
            return Ok(());
        }
        let catalog = self.catalog(ListKind::Tools);
        let Some(known) = catalog.find(tool) else { return Ok(()) };
        let Some(input) = &known.schemas.of(&known.definition).input else { return Ok(()) };
        input.check(arguments).map_err(|why| invalid_arguments(tool, &why))
    }

    /// The end of a call of this tool, if its result is as the tool's definition says or nobody asks; else what is put in its
    /// place.
    pub fn check_output(&self, tool: &str, ending: Ending) -> Ending {
        let Ending::Finished(Outcome::Result { body, is_error: false, .. }) = &ending else { return ending };
        let mode = self.spec().policy_of(tool).check_output;
        if mode == CheckOutput::Off {
            return ending;
        }
        let catalog = self.catalog(ListKind::Tools);
        let schemas = catalog.find(tool).map(|known| known.schemas.of(&known.definition));
        let Some(output) = schemas.and_then(|schemas| schemas.output.as_ref()) else { return ending };
        let Err(why) = fits(output, body) else { return ending };
        let why = cut(&format!("The result of {tool} is not as its outputSchema says: {why}"), LONGEST);
        match mode {
            CheckOutput::Error => refused(&why),
            CheckOutput::Off | CheckOutput::Warn => {
                tracing::warn!(upstream = self.name(), tool, "{why}");
                ending
            }
        }
    }
}

/// Whether a result has structured content, as a tool with a schema for it must (2025-06-18, tools), and such as it says.
fn fits(output: &ToolSchema, result: &Payload) -> Result<(), String> {
    let result = RawObject::parse(result.as_str()).map_err(|error| error.to_string())?;
    let content = result.get("structuredContent").ok_or("it has no structuredContent")?;
    output.check(content.get())
}

//! A command as a tool: it runs apart from this process, and outlives it.

mod handover;
mod outcome;
mod runner;
mod schema;
mod server;
mod yard;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

pub use runner::CommandRunner;
pub use schema::{InputSchema, InvalidSchema};
pub use server::serve;
pub use yard::{Commands, Yard};

/// A command that callers see as a tool. It reads the arguments of the call, a JSON object, on stdin.
#[derive(Clone, PartialEq)]
pub struct CommandTool {
    /// The tool's name.
    pub tool: String,
    /// What it does, for whoever chooses among tools.
    pub description: Option<String>,
    /// What arguments it takes. A call with others is refused before anything is started.
    pub input_schema: InputSchema,
    /// The program, looked up in `PATH`, and its arguments. No shell is involved.
    pub argv: Vec<String>,
    /// Variables to set.
    pub env: Vec<(String, String)>,
    /// Whether the command gets these variables only, instead of ours and these.
    pub clear_env: bool,
    /// The working directory; `/`, if not given.
    pub cwd: Option<PathBuf>,
    /// How much of each of stdout and stderr is kept, in bytes. Of more, the beginning and the end are.
    pub output_limit: usize,
    /// How long its processes have between SIGTERM and SIGKILL when it is stopped.
    pub stop_grace: Duration,
}

/// How much of a stream is kept if nobody says otherwise.
const OUTPUT_LIMIT: usize = 256 << 10;
/// How long a command has to end if nobody says otherwise.
const STOP_GRACE: Duration = Duration::from_secs(5);

impl CommandTool {
    /// A tool without description that takes any arguments, runs in `/` and has our variables.
    pub fn new(tool: impl Into<String>, argv: impl IntoIterator<Item = impl Into<String>>) -> Self {
        CommandTool {
            tool: tool.into(),
            description: None,
            input_schema: InputSchema::any(),
            argv: argv.into_iter().map(Into::into).collect(),
            env: Vec::new(),
            clear_env: false,
            cwd: None,
            output_limit: OUTPUT_LIMIT,
            stop_grace: STOP_GRACE,
        }
    }
}

impl CommandTool {
    /// Whether it takes these arguments, a JSON object; if not, what their sender is told.
    pub(crate) fn accept(&self, arguments: &str) -> Result<(), String> {
        let checked = self.input_schema.check(arguments);
        checked.map_err(|why| format!("Invalid arguments for {}: {why}", self.tool))
    }
}

impl fmt::Debug for CommandTool {
    /// Values of variables may be secrets, so only their names are shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.env.iter().map(|(name, _)| name).collect();
        f.debug_struct("CommandTool")
            .field("tool", &self.tool)
            .field("description", &self.description)
            .field("input_schema", &self.input_schema)
            .field("argv", &self.argv)
            .field("env", &names)
            .field("clear_env", &self.clear_env)
            .field("cwd", &self.cwd)
            .field("output_limit", &self.output_limit)
            .field("stop_grace", &self.stop_grace)
            .finish()
    }
}

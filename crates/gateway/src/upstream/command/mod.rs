//! A command as a tool: it runs apart from this process, and outlives it.

mod handover;
mod outcome;
mod pattern;
mod runner;
mod words;
mod yard;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::ToolSchema;
use super::schema::invalid_arguments;
pub use pattern::{NoPattern, Pattern};

pub use runner::CommandRunner;
pub use words::{Group, NoWord, Word};
pub use yard::{Commands, Yard};

/// A command that callers see as a tool.
#[derive(Clone, PartialEq)]
pub struct CommandTool {
    /// The tool's name.
    pub tool: String,
    /// What it does, for whoever chooses among tools.
    pub description: Option<String>,
    /// What arguments it takes. A call with others is refused before anything is started.
    pub input_schema: ToolSchema,
    /// The program, looked up in `PATH`, and its arguments, with places for those of the call. No shell is involved. The
    /// first word is the program.
    pub line: Vec<Group>,
    /// What it reads on stdin.
    pub stdin: Stdin,
    /// Variables to set.
    pub env: Vec<(String, String)>,
    /// Whether the command gets these variables only, instead of ours and these.
    pub clear_env: bool,
    /// The working directory; `/`, if not given.
    pub cwd: Option<PathBuf>,
    /// The exit codes with which it has done its work.
    pub success: Vec<i32>,
    /// What exit codes mean, for whoever reads the result.
    pub exit_codes: BTreeMap<i32, String>,
    /// Which lines of its output say how far it is; without it, the last line is a message.
    pub progress: Option<Pattern>,
    /// What it writes on stdout.
    pub output: Output,
    /// What the object holds that it writes on stdout. A result with another one is an error.
    pub output_schema: Option<ToolSchema>,
    /// How much of each of stdout and stderr is kept, in bytes. Of more, the beginning and the end are.
    pub output_limit: usize,
    /// How long its processes have between SIGTERM and SIGKILL when it is stopped.
    pub stop_grace: Duration,
}

/// What a command reads on stdin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stdin {
    /// The arguments of the call: a JSON object, then the end.
    #[default]
    Arguments,
    /// Nothing: the end at once.
    Nothing,
}

/// What a command writes on stdout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Output {
    /// Text, for whoever reads the result.
    #[default]
    Text,
    /// A JSON object, which is the structured content of the result.
    Json,
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
            input_schema: ToolSchema::any(),
            line: argv.into_iter().map(|word| vec![Word::literal(word)]).collect(),
            stdin: Stdin::Arguments,
            env: Vec::new(),
            clear_env: false,
            cwd: None,
            success: vec![0],
            exit_codes: BTreeMap::new(),
            progress: None,
            output: Output::Text,
            output_schema: None,
            output_limit: OUTPUT_LIMIT,
            stop_grace: STOP_GRACE,
        }
    }
}

impl CommandTool {
    /// The program that is run.
    pub fn program(&self) -> &str {
        self.line.first().and_then(|group| group.first()?.fixed()).unwrap_or_default()
    }

    /// The command line for these arguments, a JSON object, if it takes them; if not, what their sender is told.
    pub(crate) fn accept(&self, arguments: &str) -> Result<Vec<String>, String> {
        let filled = || {
            self.input_schema.check(arguments)?;
            let arguments = serde_json::from_str(arguments).map_err(|error| error.to_string())?;
            words::fill(&self.line, &arguments).map_err(|unfit| unfit.to_string())
        };
        filled().map_err(|why| invalid_arguments(&self.tool, &why))
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
            .field("line", &self.line)
            .field("stdin", &self.stdin)
            .field("env", &names)
            .field("clear_env", &self.clear_env)
            .field("cwd", &self.cwd)
            .field("success", &self.success)
            .field("exit_codes", &self.exit_codes)
            .field("progress", &self.progress)
            .field("output", &self.output)
            .field("output_schema", &self.output_schema)
            .field("output_limit", &self.output_limit)
            .field("stop_grace", &self.stop_grace)
            .finish()
    }
}

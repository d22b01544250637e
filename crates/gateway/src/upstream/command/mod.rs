//! A command as a tool: it runs apart from this process, and outlives it.

mod handover;
mod outcome;
mod runner;
mod yard;

use std::fmt;
use std::path::PathBuf;

use taskgate_task::Payload;

pub use runner::CommandRunner;
pub use yard::{Commands, Yard};

/// A command that callers see as a tool. It reads the arguments of the call, a JSON object, on stdin.
#[derive(Clone, PartialEq)]
pub struct CommandTool {
    /// The tool's name.
    pub tool: String,
    /// What it does, for whoever chooses among tools.
    pub description: Option<String>,
    /// The JSON Schema of its arguments. Callers are told; the command itself sees to what it is given.
    pub input_schema: Payload,
    /// The program, looked up in `PATH`, and its arguments. No shell is involved.
    pub argv: Vec<String>,
    /// Variables to set.
    pub env: Vec<(String, String)>,
    /// Whether the command gets these variables only, instead of ours and these.
    pub clear_env: bool,
    /// The working directory; `/`, if not given.
    pub cwd: Option<PathBuf>,
}

impl CommandTool {
    /// A tool without description that takes any arguments, runs in `/` and has our variables.
    pub fn new(tool: impl Into<String>, argv: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let any = serde_json::json!({ "type": "object" });
        CommandTool {
            tool: tool.into(),
            description: None,
            input_schema: Payload::from_value(&any).unwrap_or_else(|_| Payload::null()),
            argv: argv.into_iter().map(Into::into).collect(),
            env: Vec::new(),
            clear_env: false,
            cwd: None,
        }
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
            .finish()
    }
}

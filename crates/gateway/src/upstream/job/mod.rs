//! A job of an API as a tool: it runs wherever that API runs it, and outlives this process.

mod ask;
mod callbacks;
mod follow;
mod outcome;
mod pace;
mod place;
pub mod presets;
mod runner;
mod starts;

use std::path::PathBuf;

use serde_json::{Map, Value};
use taskgate_job::Declaration;
use taskgate_reach::Reach;

use super::ToolSchema;
use super::schema::invalid_arguments;

pub use callbacks::{Callbacks, PATH as CALLBACKS};
pub use runner::JobRunner;

/// A job of an API that callers see as a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct JobTool {
    /// The tool's name.
    pub tool: String,
    /// What it does, for whoever chooses among tools.
    pub description: Option<String>,
    /// What arguments it takes. A call with others is refused before anything is sent.
    pub input_schema: ToolSchema,
    /// How its jobs are started, looked at, fetched and cancelled.
    pub declaration: Declaration,
    /// A file of PEM texts with certificates that are trusted besides those of the operating system.
    pub ca_file: Option<PathBuf>,
    /// Where its answers may lead to.
    pub reach: Reach,
    /// The declaration as it was written, for whoever wants to see it whole.
    pub written: Map<String, Value>,
}

impl JobTool {
    /// Whether it takes these arguments, a JSON object; if not, what their sender is told.
    pub(crate) fn accept(&self, arguments: &str) -> Result<(), String> {
        accept(&self.tool, &self.input_schema, arguments)
    }
}

fn accept(tool: &str, schema: &ToolSchema, arguments: &str) -> Result<(), String> {
    schema.check(arguments).map_err(|why| invalid_arguments(tool, &why))
}

//! Where hosts keep which servers they start.

use std::collections::HashMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::expand::expand;
use super::{jsonc, trusted};
use crate::exit_code::{ExitCode, Failure};

/// What is around: everything that is read and is not the command line, so that tests can have their own.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// The working directory, if there is one.
    pub directory: Option<PathBuf>,
    /// The user's own directory.
    pub home: Option<PathBuf>,
    /// The environment, as far as it is text.
    pub variables: HashMap<String, String>,
}

impl Surroundings {
    /// Those of this process.
    pub fn of_this_process() -> Surroundings {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Surroundings {
            directory: std::env::current_dir().ok(),
            home: etcetera::home_dir().ok(),
            variables: std::env::vars_os().filter_map(text).collect(),
        }
    }

    /// The value of a variable.
    pub fn variable(&self, name: &str) -> Option<String> {
        self.variables.get(name).cloned()
    }
}

/// A server as a host's configuration has it, with its variables replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// One that is a URL.
    Http {
        /// Where.
        url: String,
        /// With which headers.
        headers: Vec<(String, String)>,
    },
    /// One that is started.
    Command {
        /// The program.
        program: String,
        /// Its arguments.
        args: Vec<String>,
        /// Variables for it.
        env: Vec<(String, String)>,
        /// Where it is started.
        cwd: Option<String>,
    },
}

/// The files of a project, in a directory or one above it.
const OF_PROJECTS: [&str; 3] = [".mcp.json", ".vscode/mcp.json", ".cursor/mcp.json"];
/// The files of a user.
const OF_USERS: [&str; 6] = [
    ".claude.json",
    ".cursor/mcp.json",
    ".config/Claude/claude_desktop_config.json",
    "Library/Application Support/Claude/claude_desktop_config.json",
    ".config/Code/User/mcp.json",
    "Library/Application Support/Code/User/mcp.json",
];

/// The server of this name: in `file`, or in the nearest file of a host that has it.
///
/// # Errors
///
/// If there is none: which files were looked at, and what is in them or why they are not believed.
pub fn find(name: &str, file: Option<&Path>, around: &Surroundings) -> Result<Entry, Failure> {
    let files = match file {
        Some(file) => vec![file.to_owned()],
        None => usual(around),
    };
    let mut looked = String::new();
    for path in files {
        let read = match file {
            Some(_) => std::fs::read_to_string(&path),
            None => trusted::read(&path),
        };
        let text = match read {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && file.is_none() => continue,
            Err(error) => {
                // Writing to a string does not fail.
                let _ = write!(looked, "\n  {}: cannot be read: {error}", path.display());
                continue;
            }
        };
        let servers = match servers(&text, around) {
            Ok(servers) => servers,
            Err(wrong) => {
                let _ = write!(looked, "\n  {}: {wrong}", path.display());
                continue;
            }
        };
        if let Some(raw) = servers.get(name) {
            let entry = entry(raw, project_of(&path), around);
            return entry
                .map_err(|wrong| invalid(format!("the server {name:?} in {}: {wrong}", path.display())));
        }
        let names: Vec<&str> = servers.keys().map(String::as_str).collect();
        let names = if names.is_empty() { "no servers".to_owned() } else { names.join(", ") };
        let _ = write!(looked, "\n  {}: {names}", path.display());
    }
    if looked.is_empty() {
        looked = "\n  none of the files in which hosts keep their servers is there; name one with --config"
            .to_owned();
    }
    Err(invalid(format!(
        "there is no server {name:?}; give a URL, a command after --, or one of these names:{looked}"
    )))
}

/// Where hosts keep their servers, the nearest first.
fn usual(around: &Surroundings) -> Vec<PathBuf> {
    let above = around.directory.iter().flat_map(|directory| directory.ancestors());
    let mut files: Vec<PathBuf> =
        above.flat_map(|directory| OF_PROJECTS.map(|file| directory.join(file))).collect();
    for file in around.home.iter().flat_map(|home| OF_USERS.map(|file| home.join(file))) {
        if !files.contains(&file) {
            files.push(file);
        }
    }
    files
}

/// The servers of a file: `mcpServers`, or `servers` as VS Code calls it. In `.claude.json` those of the project come first.
fn servers(text: &str, around: &Surroundings) -> Result<Map<String, Value>, String> {
    let all: Value =
        serde_json::from_str(&jsonc::plain(text)).map_err(|error| format!("is no JSON: {error}"))?;
    let mut servers = Map::new();
    for key in ["servers", "mcpServers"] {
        if let Some(Value::Object(own)) = all.get(key) {
            servers.extend(own.clone());
        }
    }
    for directory in
        around.directory.iter().flat_map(|directory| directory.ancestors()).collect::<Vec<_>>().iter().rev()
    {
        let project = directory.to_str().and_then(|path| all.get("projects")?.get(path));
        if let Some(Value::Object(own)) = project.and_then(|project| project.get("mcpServers")) {
            servers.extend(own.clone());
        }
    }
    Ok(servers)
}

/// The directory a file speaks of: its own, or that above `.vscode` and `.cursor`.
fn project_of(file: &Path) -> &Path {
    let directory = file.parent().unwrap_or(file);
    match directory.file_name().and_then(|name| name.to_str()) {
        Some(".vscode" | ".cursor") => directory.parent().unwrap_or(directory),
        _ => directory,
    }
}

fn entry(raw: &Value, project: &Path, around: &Surroundings) -> Result<Entry, String> {
    let text = |value: &Value, what: &str| match value {
        Value::String(text) => expand(text, project, around),
        Value::Number(_) | Value::Bool(_) => Ok(value.to_string()),
        _ => Err(format!("its {what} is no text")),
    };
    let member = |name: &str| raw.get(name).map(|value| text(value, name)).transpose();
    let pairs = |name: &str| match raw.get(name) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Object(pairs)) => {
            pairs.iter().map(|(key, value)| Ok((key.clone(), text(value, name)?))).collect()
        }
        Some(_) => Err(format!("its {name} is no object")),
    };
    match (member("url")?.or(member("serverUrl")?), member("command")?) {
        (Some(url), None) => {
            if raw.get("type").and_then(Value::as_str) == Some("sse") {
                return Err(
                    "it is reached by the old SSE transport, which taskgate does not speak".to_owned()
                );
            }
            Ok(Entry::Http { url, headers: pairs("headers")? })
        }
        (None, Some(program)) => {
            let args = match raw.get("args") {
                None | Some(Value::Null) => Vec::new(),
                Some(Value::Array(args)) => {
                    args.iter().map(|value| text(value, "args")).collect::<Result<_, _>>()?
                }
                Some(_) => return Err("its args are no list".to_owned()),
            };
            Ok(Entry::Command { program, args, env: pairs("env")?, cwd: member("cwd")? })
        }
        (Some(_), Some(_)) => Err("it has a url and a command; it can be one of them".to_owned()),
        (None, None) => Err("it has neither a url nor a command".to_owned()),
    }
}

fn invalid(message: impl std::fmt::Display) -> Failure {
    Failure::new(ExitCode::Invalid, message)
}

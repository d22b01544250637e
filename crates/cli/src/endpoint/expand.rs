//! Variables in the configuration of hosts.

use std::path::Path;

use super::hosts::Surroundings;

/// The text with its variables replaced: `${NAME}`, `${NAME:-otherwise}` and `${env:NAME}` from the environment, and what editors
/// call the project's directory and the user's.
///
/// # Errors
///
/// What cannot be replaced, as a whole sentence without values.
pub fn expand(text: &str, project: &Path, around: &Surroundings) -> Result<String, String> {
    let (mut done, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(start) = rest.find("${") {
        let Some(length) = rest[start..].find('}') else { break };
        done.push_str(&rest[..start]);
        done.push_str(&value(&rest[start + 2..start + length], project, around)?);
        rest = &rest[start + length + 1..];
    }
    done.push_str(rest);
    Ok(done)
}

fn value(name: &str, project: &Path, around: &Surroundings) -> Result<String, String> {
    if name == "workspaceFolder" {
        return Ok(project.display().to_string());
    }
    if name == "userHome" {
        let home = around.home.as_ref().map(|home| home.display().to_string());
        return home.ok_or_else(|| "There is no home directory for ${userHome}.".to_owned());
    }
    if let Some(question) = name.strip_prefix("input:") {
        return Err(format!(
            "It wants ${{input:{question}}}, which an editor asks for; write ${{env:NAME}} there and set the variable."
        ));
    }
    let name = name.strip_prefix("env:").unwrap_or(name);
    let (name, otherwise) = match name.split_once(":-") {
        Some((name, otherwise)) => (name, Some(otherwise)),
        None => (name, None),
    };
    match (around.variable(name), otherwise) {
        (Some(value), None) => Ok(value),
        (Some(value), Some(_)) if !value.is_empty() => Ok(value),
        (_, Some(otherwise)) => Ok(otherwise.to_owned()),
        (None, None) => Err(format!("The variable {name} is not set.")),
    }
}

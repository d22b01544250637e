//! The presets, each against a strict copy of its API.

#[cfg(feature = "aws")]
mod step_functions;
mod temporal;

use serde_json::Value;

use super::live;
use crate::harness::job_api::Reply;

/// What an API says of a request that it does not know.
fn unknown<T>(what: impl Into<String>) -> Result<T, String> {
    Err(what.into())
}

/// The members of a body, which must be exactly these.
fn members(body: &Value, names: &[&str]) -> Result<(), String> {
    let mut written: Vec<&str> =
        body.as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect();
    let mut names = names.to_vec();
    written.sort_unstable();
    names.sort_unstable();
    if written == names { Ok(()) } else { Err(format!("{written:?} and not {names:?}")) }
}

fn not_found(message: &str) -> Result<Reply, String> {
    Ok((404, serde_json::json!({ "message": message })))
}

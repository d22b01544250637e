//! `taskgate call`: a tool is called and followed to its end, whatever the server makes of it.

use std::time::Instant;

use serde_json::{Map, Value};
use taskgate_client::{CallRequest, Client};

use super::arguments::{self, Given};
use super::subject::server_of;
use super::{answers, builder, connect_to_follow_with, options, or_stop};
use crate::args::client::Call;
use crate::exit_code::{ExitCode, Failure};
use crate::follow::{Followed, Options, Signals, are_over, conclude, follow};

/// Calls it.
pub async fn run(args: Call, signals: &mut Signals) -> Result<(), Failure> {
    let mut words = &args.words[..];
    let named = if args.server.command.is_empty() {
        let (first, rest) = words.split_first().ok_or_else(no_tool)?;
        words = rest;
        Some(first.as_str())
    } else {
        None
    };
    let (tool, given) = words.split_first().ok_or_else(no_tool)?;
    let given = arguments::read(given)?;
    let all = args.json.as_deref().map(arguments::whole).transpose()?.unwrap_or_default();
    let (file, able) = answers(&args.look)?;
    let target = server_of(named, &args.server)?;
    let begun = Instant::now();
    let mut builder = builder(&target, args.look.deadline, able);
    if let Some(level) = args.log_level {
        builder = builder.log_level(level);
    }
    let (client, remembered) = or_stop(signals, connect_to_follow_with(&target, builder)).await?;
    let arguments = or_stop(signals, arguments_of(&client, tool, all, given)).await?;
    let request = CallRequest {
        ttl: args.ttl,
        idempotency_key: args.idempotency_key,
        // What the connection took is a part of it.
        deadline: args.look.deadline.map(|deadline| deadline.saturating_sub(begun.elapsed())),
        task: Some(args.tasks),
        ..CallRequest::new(tool, Value::Object(arguments))
    };
    let followed =
        Followed { label: tool.clone(), named: target.named, is_new: true, call: client.call_with(request) };
    let options = Options { detach: args.detach, ..options(&args.look, file) };
    let ends = follow(vec![followed], options, signals).await?;
    let concluded = conclude(&ends, args.look.output, args.detach);
    client.close().await;
    if let Some(remembered) = remembered
        && are_over(&ends)
    {
        remembered.forget();
    }
    concluded
}

/// The tool's schema is only asked for where it decides something.
async fn arguments_of(
    client: &Client,
    tool: &str,
    all: Map<String, Value>,
    given: Vec<(String, Given)>,
) -> Result<Map<String, Value>, Failure> {
    let schema = if given.iter().any(|(_, given)| matches!(given, Given::Text(_))) {
        // A server that does not tell of its tools may still have this one.
        let tools = client.tools().await.unwrap_or_default();
        let tools = tools.iter().filter_map(|raw| serde_json::from_str::<Value>(raw.as_str()).ok());
        let found = tools.into_iter().find(|found| found.get("name").and_then(Value::as_str) == Some(tool));
        found.and_then(|mut tool| tool.get_mut("inputSchema").map(Value::take))
    } else {
        None
    };
    arguments::put_together(all, given, schema.as_ref())
}

fn no_tool() -> Failure {
    Failure::new(ExitCode::Invalid, "which tool? `taskgate tools` with the server lists them")
}

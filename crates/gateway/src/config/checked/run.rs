//! A command that is a tool.

use std::ops::Range;

use serde_json::{Map, Value, json};
use taskgate_task::Payload;
use toml::Spanned;

use super::Surroundings;
use super::upstream::{LONGEST_TOOL, check_command};
use crate::config::fields::Entry;
use crate::config::raw::{RawRun, RawUpstream};
use crate::upstream::CommandTool;

/// The longest description, in bytes. Every list of tools carries it.
const LONGEST_DESCRIPTION: usize = 16 << 10;

/// Checks `[upstream.run]` of this upstream.
pub(super) fn check(run: &Spanned<RawRun>, upstream: &RawUpstream, around: &Surroundings<'_>) -> CommandTool {
    let (span, run) = (run.span(), run.get_ref());
    for (key, help) in [
        ("tool", "add `tool = \"NAME\"`: the name callers know it by"),
        ("command", r#"add `command = ["PROGRAM", "ARGUMENT"]`"#),
    ] {
        if !run.written.iter().any(|written| written == key) {
            around.problems.add_with_help(span.clone(), format!("[upstream.run] has no `{key}`"), help);
        }
    }
    let tool = check_tool(&run.tool, around);
    let description = check_description(&run.description, around);
    let command = run.command.as_ref().map(|words| check_command(words, upstream, around));
    let input_schema = schema(&run.input_schema, around);
    refuse_what_is_for_servers("the command of [upstream.run]", upstream, around);
    let (argv, env, clear_env, cwd) = match command {
        Some(command) => {
            let argv = std::iter::once(command.program).chain(command.args).collect();
            (argv, command.env, command.clear_env, command.cwd)
        }
        None => Default::default(),
    };
    CommandTool { tool: tool.unwrap_or_default(), description, input_schema, argv, env, clear_env, cwd }
}

/// Checks the name that callers know a tool by.
pub(super) fn check_tool(tool: &Entry<String>, around: &Surroundings<'_>) -> Option<String> {
    let length = format!("1 to {LONGEST_TOOL} bytes");
    around.parsed(tool, "tool", &length, |name| match name {
        "" => Err("is empty".to_owned()),
        _ if name.len() > LONGEST_TOOL => Err("is too long".to_owned()),
        _ => Ok(name.to_owned()),
    })
}

/// Checks what a tool is said to do.
pub(super) fn check_description(description: &Entry<String>, around: &Surroundings<'_>) -> Option<String> {
    let length = format!("at most {LONGEST_DESCRIPTION} bytes");
    around.parsed(description, "description", &length, |text| {
        if text.len() > LONGEST_DESCRIPTION { Err("is too long".to_owned()) } else { Ok(text.to_owned()) }
    })
}

/// Checks what a tool's arguments are said to be.
pub(super) fn schema(written: &Entry<Map<String, Value>>, around: &Surroundings<'_>) -> Payload {
    let any = json!({ "type": "object" });
    let schema = match written {
        None => any,
        Some(schema) => {
            let object = schema.get_ref();
            // "inputSchema: a JSON Schema object"; clients refuse a tool whose schema is of anything else.
            if object.get("type").and_then(Value::as_str) != Some("object") {
                let help = "allowed: a JSON Schema with `type = \"object\"`, since arguments are an object";
                around.problems.add_with_help(schema.span(), "`input_schema` is not of an object", help);
            }
            Value::Object(object.clone())
        }
    };
    Payload::from_value(&schema).unwrap_or_else(|_| Payload::null())
}

/// What is no server speaks no protocol, and what becomes of it when taskgate dies is not a matter of choice.
pub(super) fn refuse_what_is_for_servers(what: &str, upstream: &RawUpstream, around: &Surroundings<'_>) {
    for (key, written) in [("speak", &upstream.speak), ("upstream_tasks", &upstream.upstream_tasks)] {
        if let Some(written) = written {
            around.problems.add(written.span(), format!("`{key}` is for a server, and {what} is none"));
        }
    }
    let crashes: Vec<Range<usize>> = std::iter::once(&upstream.defaults)
        .chain(upstream.tools.iter().map(|(_, policy)| policy))
        .filter_map(|policy| super::span_of(&policy.after_crash))
        .collect();
    for span in crashes {
        let wrong = format!("`after_crash` is not for {what}: it runs on when taskgate dies");
        around.problems.add_with_help(span, wrong, "leave it out: the next taskgate takes it up again");
    }
}

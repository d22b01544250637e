//! A command that is a tool.

use std::ops::Range;
use std::time::Duration;

use serde_json::{Map, Value};
use toml::Spanned;

use super::Surroundings;
use super::upstream::{LONGEST_TOOL, check_command};
use crate::config::fields::Entry;
use crate::config::raw::{RawRun, RawUpstream};
use crate::config::{format_size, limits};
use crate::upstream::{CommandTool, InputSchema, InvalidSchema};

/// The longest description, in bytes. Every list of tools carries it.
const LONGEST_DESCRIPTION: usize = 16 << 10;

/// Checks `[upstream.run]` of this upstream.
pub(super) fn check(
    run: &Spanned<RawRun>,
    upstream: &RawUpstream,
    max_result: usize,
    around: &Surroundings<'_>,
) -> CommandTool {
    let (span, run) = (run.span(), run.get_ref());
    for (key, help) in [
        ("tool", "add `tool = \"NAME\"`: the name callers know it by"),
        ("command", r#"add `command = ["PROGRAM", "ARGUMENT"]`"#),
    ] {
        if !run.written.iter().any(|written| written == key) {
            around.problems.add_with_help(span.clone(), format!("[upstream.run] has no `{key}`"), help);
        }
    }
    let length = format!("1 to {LONGEST_TOOL} bytes");
    let tool = around.parsed(&run.tool, "tool", &length, |name| match name {
        "" => Err("is empty".to_owned()),
        _ if name.len() > LONGEST_TOOL => Err("is too long".to_owned()),
        _ => Ok(name.to_owned()),
    });
    let length = format!("at most {LONGEST_DESCRIPTION} bytes");
    let description = around.parsed(&run.description, "description", &length, |text| {
        if text.len() > LONGEST_DESCRIPTION { Err("is too long".to_owned()) } else { Ok(text.to_owned()) }
    });
    let command = run.command.as_ref().map(|words| check_command(words, upstream, around));
    let input_schema = schema(&run.input_schema, around);
    refuse_what_is_for_servers(upstream, around);
    let (argv, env, clear_env, cwd) = match command {
        Some(command) => {
            let argv: Vec<String> = std::iter::once(command.program).chain(command.args).collect();
            (argv, command.env, command.clear_env, command.cwd)
        }
        None => Default::default(),
    };
    let default = CommandTool::new(tool.unwrap_or_default(), argv);
    CommandTool {
        description,
        input_schema,
        env,
        clear_env,
        cwd,
        output_limit: output_limit(&run.output_limit, max_result, around).unwrap_or(default.output_limit),
        stop_grace: stop_grace(&run.stop_grace, around).unwrap_or(default.stop_grace),
        ..default
    }
}

fn schema(written: &Entry<Map<String, Value>>, around: &Surroundings<'_>) -> InputSchema {
    let Some(written) = written else { return InputSchema::any() };
    InputSchema::new(&Value::Object(written.get_ref().clone())).unwrap_or_else(|wrong| {
        let help = match wrong {
            InvalidSchema::NotAnObject => {
                "allowed: a JSON Schema with `type = \"object\"`, since arguments are an object"
            }
            InvalidSchema::Invalid(_) => "allowed: a JSON Schema of 2020-12, or of what its `$schema` says",
        };
        around.problems.add_with_help(written.span(), format!("`input_schema` {wrong}"), help);
        InputSchema::any()
    })
}

/// A result holds stdout twice, as text and structured, and stderr beside it. One that is too long would fail its task after
/// the command has done all its work.
fn output_limit(written: &Entry<String>, max_result: usize, around: &Surroundings<'_>) -> Option<usize> {
    let range = limits::OUTPUT_LIMIT;
    let limit = around.parsed(written, "output_limit", &range.allowed(), |text| range.parse(text))?;
    if limit.saturating_mul(3) > max_result {
        let [shown, most] = [limit, max_result].map(format_size);
        let what = format!("`output_limit` ({shown}) is more than a third of `max_result` ({most})");
        let help = "a result holds stdout twice and stderr once: raise `max_result`, or keep less";
        around.problems.add_with_help(super::span_of(written).unwrap_or_default(), what, help);
    }
    Some(limit)
}

fn stop_grace(written: &Entry<String>, around: &Surroundings<'_>) -> Option<Duration> {
    let range = limits::STOP_GRACE;
    around.parsed(written, "stop_grace", &range.allowed(), |text| range.parse(text))
}

/// A command speaks no protocol, and what becomes of it when taskgate dies is not a matter of choice.
fn refuse_what_is_for_servers(upstream: &RawUpstream, around: &Surroundings<'_>) {
    for (key, written) in [("speak", &upstream.speak), ("upstream_tasks", &upstream.upstream_tasks)] {
        if let Some(written) = written {
            let what = format!("`{key}` is for a server, and the command of [upstream.run] is none");
            around.problems.add(written.span(), what);
        }
    }
    let crashes: Vec<Range<usize>> = std::iter::once(&upstream.defaults)
        .chain(upstream.tools.iter().map(|(_, policy)| policy))
        .filter_map(|policy| super::span_of(&policy.after_crash))
        .collect();
    for span in crashes {
        let what = "`after_crash` is not for the command of [upstream.run]: it runs on when taskgate dies";
        around.problems.add_with_help(
            span,
            what,
            "leave it out: the next taskgate takes the command up again",
        );
    }
}

//! A command that is a tool.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use serde_json::{Map, Value};
use toml::Spanned;

use super::Surroundings;
use super::upstream::{LONGEST_TOOL, PROGRAM, check_process};
use crate::config::fields::Entry;
use crate::config::raw::{RawExit, RawRun, RawUpstream, RawWords};
use crate::config::{format_size, limits};
use crate::upstream::{CommandTool, Group, InvalidSchema, Output, Pattern, Stdin, ToolSchema, Word};

/// Programs that read the word behind `-c` as a program.
const SHELLS: &[&str] = &["sh", "bash", "dash", "zsh", "ksh", "ash"];

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
    let tool = check_tool(&run.tool, around);
    let description = check_description(&run.description, around);
    let line = run.command.as_ref().map(|words| line(words, run, around));
    let process = check_process(upstream, around);
    let input_schema = schema("input_schema", &run.input_schema, around).unwrap_or_else(ToolSchema::any);
    refuse_what_is_for_servers("the command of [upstream.run]", upstream, around);
    let default = CommandTool::new(tool.unwrap_or_default(), [""; 0]);
    let stdin = around.parsed(&run.stdin, "stdin", r#""arguments", "none""#, |word| match word {
        "arguments" => Ok(Stdin::Arguments),
        "none" => Ok(Stdin::Nothing),
        _ => Err("is none of these words".to_owned()),
    });
    let output = around.parsed(&run.output, "output", r#""text", "json""#, |word| match word {
        "text" => Ok(Output::Text),
        "json" => Ok(Output::Json),
        _ => Err("is none of these words".to_owned()),
    });
    let pattern =
        "a regular expression with groups such as (?<progress>\\d+), (?<total>\\d+) and (?<message>.*)";
    let progress = around.parsed(&run.progress, "progress", pattern, |text| {
        Pattern::new(text).map_err(|wrong| wrong.to_string())
    });
    CommandTool {
        description,
        input_schema,
        line: line.unwrap_or_default(),
        stdin: stdin.unwrap_or_default(),
        env: process.env,
        clear_env: process.clear_env,
        cwd: process.cwd,
        success: success(&run.success, around).unwrap_or(default.success),
        exit_codes: exit_codes(&run.exit_codes, around),
        progress,
        output_schema: output_schema(run, output.unwrap_or_default(), around),
        output: output.unwrap_or_default(),
        output_limit: output_limit(&run.output_limit, max_result, around).unwrap_or(default.output_limit),
        stop_grace: stop_grace(&run.stop_grace, around).unwrap_or(default.stop_grace),
        ..default
    }
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

/// The command line, with places for the call's arguments. Those it asks for must be arguments that there are.
fn line(written: &Spanned<Vec<RawWords>>, run: &RawRun, around: &Surroundings<'_>) -> Vec<Group> {
    let properties =
        run.input_schema.as_ref().and_then(|schema| schema.get_ref().get("properties")?.as_object());
    let read = |text: &Spanned<String>| {
        let word =
            around.parsed_at(text, "command", "words, with arguments of the call as {{name}}", |text| {
                Word::parse(text).map_err(|wrong| wrong.to_string())
            })?;
        if let Some(unknown) =
            word.names().find(|name| !properties.is_some_and(|all| all.contains_key(*name)))
        {
            let what = format!("`command` asks for the argument `{unknown}`, which is not in `input_schema`");
            around.problems.add_with_help(text.span(), what, "write what it is below `properties` there");
        }
        Some(word)
    };
    let line: Vec<Group> =
        written.get_ref().iter().map(|group| group.iter().filter_map(read).collect()).collect();
    refuse_script(&line, written.get_ref(), around);
    let first = written.get_ref().first().and_then(|group| group.first());
    let program = line.first().and_then(|group| group.first()?.fixed());
    if first.is_none_or(|first| first.get_ref().is_empty()) {
        let span = first.map_or(written.span(), Spanned::span);
        around.problems.add_with_help(span, "`command` names no program", PROGRAM);
    } else if program.is_none()
        && let Some(first) = first
    {
        let what = "`command` lets the call say which program is run";
        around.problems.add_with_help(first.span(), what, "allowed: a program that is always the same");
    }
    line
}

/// A shell reads the text behind `-c` as a program, so an argument in it would be a part of that program.
fn refuse_script(line: &[Group], written: &[RawWords], around: &Surroundings<'_>) {
    let words: Vec<(&Word, &Spanned<String>)> = line.iter().flatten().zip(written.iter().flatten()).collect();
    let program = words.first().and_then(|(word, _)| word.fixed()).unwrap_or_default();
    if !SHELLS.contains(&program.rsplit('/').next().unwrap_or_default()) {
        return;
    }
    for pair in words.windows(2) {
        let [(option, _), (script, text)] = pair else { continue };
        if option.fixed().is_some_and(|option| option.starts_with('-') && option.ends_with('c'))
            && script.fixed().is_none()
        {
            let what = "`command` puts arguments of the call into the text of a script, where they could do anything";
            let help = r#"write "$1" there, and behind the script: "sh", "{{name}}""#;
            around.problems.add_with_help(text.span(), what, help);
        }
    }
}

fn success(written: &Entry<Vec<Spanned<i64>>>, around: &Surroundings<'_>) -> Option<Vec<i32>> {
    let written = written.as_ref()?;
    let help = "allowed: numbers from 0 to 255, at least one";
    if written.get_ref().is_empty() {
        around.problems.add_with_help(written.span(), "`success`: no exit code would be one", help);
    }
    let codes = written.get_ref().iter().filter_map(|code| {
        let read = u8::try_from(*code.get_ref()).ok().map(i32::from);
        if read.is_none() {
            let what = format!("`success`: {} is no exit code", code.get_ref());
            around.problems.add_with_help(code.span(), what, help);
        }
        read
    });
    Some(codes.collect())
}

fn exit_codes(written: &Entry<Vec<RawExit>>, around: &Surroundings<'_>) -> BTreeMap<i32, String> {
    let exits = written.iter().flat_map(|exits| exits.get_ref());
    let read = exits.filter_map(|exit| {
        let code = around.parsed_at(&exit.code, "exit_codes", "numbers from 0 to 255", |text| {
            text.parse::<u8>().map(i32::from).map_err(|_| "is no exit code".to_owned())
        })?;
        Some((code, exit.meaning.clone()))
    });
    read.collect()
}

/// Checks what a tool's arguments or results are said to be.
pub(super) fn schema(
    key: &str,
    written: &Entry<Map<String, Value>>,
    around: &Surroundings<'_>,
) -> Option<ToolSchema> {
    let written = written.as_ref()?;
    let schema = ToolSchema::new(&Value::Object(written.get_ref().clone()));
    let noted = schema.map_err(|wrong| {
        let help = match wrong {
            InvalidSchema::NotAnObject => {
                "allowed: a JSON Schema with `type = \"object\"`, which all of them have"
            }
            InvalidSchema::Invalid(_) => "allowed: a JSON Schema of 2020-12, or of what its `$schema` says",
        };
        around.problems.add_with_help(written.span(), format!("`{key}` {wrong}"), help);
    });
    noted.ok()
}

/// Only an object can be held against a schema.
fn output_schema(run: &RawRun, output: Output, around: &Surroundings<'_>) -> Option<ToolSchema> {
    let schema = schema("output_schema", &run.output_schema, around);
    if let (Some(written), Output::Text) = (&run.output_schema, output) {
        let what = "`output_schema` is for an object, and the command writes text";
        around.problems.add_with_help(written.span(), what, "add `output = \"json\"`, if it does write one");
    }
    schema
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

/// What is no server speaks no protocol, and what becomes of it when taskgate dies is not a matter of choice.
pub(super) fn refuse_what_is_for_servers(what: &str, upstream: &RawUpstream, around: &Surroundings<'_>) {
    let of_servers = [
        ("speak", &upstream.speak),
        ("upstream_tasks", &upstream.upstream_tasks),
        ("sessions", &upstream.sessions),
    ];
    for (key, written) in of_servers {
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

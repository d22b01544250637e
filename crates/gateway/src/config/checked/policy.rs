//! How calls are treated: what is not written is inherited from the level above.

use std::time::Duration;

use taskgate_task::WorkClass;

use super::{Surroundings, span_of};
use crate::config::fields::Entry;
use crate::config::limits::{self, DurationRange};
use crate::config::raw::RawPolicy;
use crate::policy::{CheckOutput, TaskMode, ToolPolicy};

/// The longest text for a model, in bytes. It goes out with every task.
const LONGEST_RESPONSE: usize = 4096;

/// Reads when a call becomes a task: `auto`, `always` or `never`.
///
/// # Errors
///
/// What is wrong with the word, as the end of a sentence that begins with the word.
pub fn parse_task_mode(word: &str) -> Result<TaskMode, String> {
    match word {
        "auto" => Ok(TaskMode::Auto),
        "always" => Ok(TaskMode::Always),
        "never" => Ok(TaskMode::Never),
        _ => Err("is none of these words".to_owned()),
    }
}

/// Puts what is written at one level over what is inherited.
pub(super) fn check(raw: &RawPolicy, inherited: &ToolPolicy, around: &Surroundings<'_>) -> ToolPolicy {
    let duration = |entry: &Entry<String>, key, range: DurationRange, inherited: Duration| {
        around.parsed(entry, key, &range.allowed(), |text| range.parse(text)).unwrap_or(inherited)
    };
    let mut policy = inherited.clone();
    if let Some(tasks) = around.parsed(&raw.tasks, "tasks", r#""auto", "always", "never""#, parse_task_mode) {
        policy.tasks = tasks;
    }
    policy.inline_for = duration(&raw.inline_for, "inline_for", limits::INLINE_FOR, policy.inline_for);
    policy.poll_interval =
        duration(&raw.poll_interval, "poll_interval", limits::POLL_INTERVAL, policy.poll_interval);
    let lifetime = &mut policy.lifetime;
    lifetime.run_limit = duration(&raw.run_limit, "run_limit", limits::RUN_LIMIT, lifetime.run_limit);
    lifetime.retention = duration(&raw.retention, "retention", limits::RETENTION, lifetime.retention);
    lifetime.max_retention =
        duration(&raw.max_retention, "max_retention", limits::RETENTION, lifetime.max_retention);
    let off_or = format!("\"off\", or {}", limits::IDLE_LIMIT.allowed());
    if let Some(idle_limit) = around.parsed(&raw.idle_limit, "idle_limit", &off_or, parse_idle_limit) {
        lifetime.idle_limit = idle_limit;
    }
    // Where neither is written, the pair was checked at the level it comes from.
    let span = span_of(&raw.retention).or(span_of(&raw.max_retention));
    if let Some(span) = span.filter(|_| lifetime.retention > lifetime.max_retention) {
        let [retention, most] =
            [lifetime.retention, lifetime.max_retention].map(crate::config::format_duration);
        let what = format!("`retention` ({retention}) is longer than `max_retention` ({most})");
        around.problems.add_with_help(span, what, "allowed: a `retention` up to `max_retention`");
    }
    let words = r#""annotations", "fail", "repeat", "resume""#;
    if let Some(class) = around.parsed(&raw.after_crash, "after_crash", words, parse_after_crash) {
        policy.class = class;
    }
    if let Some(most) = around.counted(&raw.max_attempts, "max_attempts", limits::MAX_ATTEMPTS) {
        policy.max_attempts = u32::try_from(most).unwrap_or(u32::MAX);
    }
    let length =
        format!("a text of at most {LONGEST_RESPONSE} bytes; an empty one takes back an inherited one");
    let response = around.parsed(&raw.immediate_response, "immediate_response", &length, |text| {
        if text.len() > LONGEST_RESPONSE {
            return Err("is too long".to_owned());
        }
        crate::immediate::check(text).map(|()| text.to_owned())
    });
    if let Some(response) = response {
        policy.immediate_response = Some(response).filter(|response| !response.trim().is_empty());
    }
    if let Some(written) = &raw.secret_arguments {
        let allowed = r#"the name of an argument; a dot goes into an object, as in "auth.token""#;
        let names = written.get_ref().iter();
        policy.secret_arguments = names
            .filter_map(|name| around.parsed_at(name, "secret_arguments", allowed, parse_argument))
            .collect();
    }
    if let Some(check) = &raw.check_arguments {
        policy.check_arguments = *check.get_ref();
    }
    let words = r#""off", "warn", "error""#;
    if let Some(check) = around.parsed(&raw.check_output, "check_output", words, parse_check_output) {
        policy.check_output = check;
    }
    policy
}

fn parse_argument(text: &str) -> Result<String, String> {
    match text {
        "" => Err("is empty".to_owned()),
        _ if text.split('.').any(str::is_empty) => Err("has a dot without a name beside it".to_owned()),
        _ => Ok(text.to_owned()),
    }
}

fn parse_check_output(word: &str) -> Result<CheckOutput, String> {
    match word {
        "off" => Ok(CheckOutput::Off),
        "warn" => Ok(CheckOutput::Warn),
        "error" => Ok(CheckOutput::Error),
        _ => Err("is none of these words".to_owned()),
    }
}

fn parse_idle_limit(text: &str) -> Result<Option<Duration>, String> {
    if text == "off" { Ok(None) } else { limits::IDLE_LIMIT.parse(text).map(Some) }
}

fn parse_after_crash(word: &str) -> Result<Option<WorkClass>, String> {
    match word {
        "annotations" => Ok(None),
        "fail" => Ok(Some(WorkClass::Live)),
        "repeat" => Ok(Some(WorkClass::Repeatable)),
        "resume" => Ok(Some(WorkClass::Resumable)),
        _ => Err("is none of these words".to_owned()),
    }
}

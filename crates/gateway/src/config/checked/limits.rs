//! How much may be asked of this gateway.

use std::net::SocketAddr;
use std::time::Duration;

use super::Surroundings;
use crate::bounds::LimitSettings;
use crate::config::fields::Entry;
use crate::config::limits;
use crate::config::raw::{RawCount, RawLimits};

/// The limits.
pub(super) fn check(raw: &RawLimits, around: &Surroundings<'_>) -> LimitSettings {
    let default = LimitSettings::default();
    let count = |entry: &Entry<RawCount>, key, default| number_or_off(entry, key, around).unwrap_or(default);
    let off_or = format!("\"off\", or {}", limits::STORED_SIZE.allowed());
    let size = |entry: &Entry<String>, key, default| {
        let parse = |text: &str| match text {
            "off" => Ok(None),
            text => limits::STORED_SIZE.parse(text).map(Some),
        };
        around.parsed(entry, key, &off_or, parse).unwrap_or(default)
    };
    let plain = |entry: &Entry<i64>, key| around.counted(entry, key, limits::COUNT);
    LimitSettings {
        open_tasks: count(&raw.open_tasks, "open_tasks", default.open_tasks),
        owner_open_tasks: count(&raw.owner_open_tasks, "owner_open_tasks", default.owner_open_tasks),
        stored_tasks: count(&raw.stored_tasks, "stored_tasks", default.stored_tasks),
        owner_stored_tasks: count(&raw.owner_stored_tasks, "owner_stored_tasks", default.owner_stored_tasks),
        stored_size: size(&raw.stored_size, "stored_size", default.stored_size),
        owner_stored_size: size(&raw.owner_stored_size, "owner_stored_size", default.owner_stored_size),
        owner_creates: count(&raw.owner_creates, "owner_creates", default.owner_creates),
        owner_creates_burst: plain(&raw.owner_creates_burst, "owner_creates_burst"),
        owner_polls: count(&raw.owner_polls, "owner_polls", default.owner_polls),
        owner_polls_burst: plain(&raw.owner_polls_burst, "owner_polls_burst"),
        calls: count(&raw.calls, "calls", default.calls),
        owner_calls: count(&raw.owner_calls, "owner_calls", default.owner_calls),
        queue: around.counted(&raw.queue, "queue", limits::QUEUE).unwrap_or(default.queue),
        owner_queue: around
            .counted(&raw.owner_queue, "owner_queue", limits::QUEUE)
            .unwrap_or(default.owner_queue),
        streams: count(&raw.streams, "streams", default.streams),
        owner_streams: count(&raw.owner_streams, "owner_streams", default.owner_streams),
        parked_calls: count(&raw.parked_calls, "parked_calls", default.parked_calls),
        owner_parked_calls: count(&raw.owner_parked_calls, "owner_parked_calls", default.owner_parked_calls),
        backlog: around
            .parsed(&raw.backlog, "backlog", &limits::BACKLOG.allowed(), |text| limits::BACKLOG.parse(text))
            .unwrap_or(default.backlog),
        unknown_ids: count(&raw.unknown_ids, "unknown_ids", default.unknown_ids),
        unknown_ids_delay: delay(&raw.unknown_ids_delay, around).unwrap_or(default.unknown_ids_delay),
    }
}

fn delay(raw: &Entry<String>, around: &Surroundings<'_>) -> Option<Duration> {
    let range = limits::UNKNOWN_IDS_DELAY;
    around.parsed(raw, "unknown_ids_delay", &range.allowed(), |text| range.parse(text))
}

/// `Some(None)` if it is off.
fn number_or_off(entry: &Entry<RawCount>, key: &str, around: &Surroundings<'_>) -> Option<Option<usize>> {
    let entry = entry.as_ref()?;
    let number = match entry.get_ref() {
        RawCount::Word(word) if word == "off" => return Some(None),
        RawCount::Word(word) => Err(format!("`{key}`: \"{}\" is no number", word.escape_debug())),
        RawCount::Number(number) => {
            limits::COUNT.check(*number).ok_or_else(|| format!("`{key}`: {number} is out of range"))
        }
    };
    match number {
        Ok(number) => Some(Some(number)),
        Err(what) => {
            let help = format!("allowed: \"off\", or {}", limits::COUNT.allowed());
            around.problems.add_with_help(entry.span(), what, help);
            None
        }
    }
}

/// Where the numbers are served, if they are.
pub(super) fn check_metrics(raw: &Entry<String>, around: &Surroundings<'_>) -> Option<SocketAddr> {
    let allowed = r#"an IP address and a port, such as "127.0.0.1:9464""#;
    around.parsed(raw, "listen", allowed, |text| {
        text.parse().map_err(|_| "is no address to listen on".to_owned())
    })
}

//! What is written of how much may be asked of this gateway, and of where that can be watched.

use toml::de::{DeTable, DeValue};

use super::TOP;
use crate::config::error::Problems;
use crate::config::fields::{Entry, Fields, FromValue, Section};

/// The keys of `[limits]`.
pub(in crate::config) const LIMITS: Section = Section {
    name: "[limits]",
    keys: &[
        "open_tasks",
        "owner_open_tasks",
        "stored_tasks",
        "owner_stored_tasks",
        "stored_size",
        "owner_stored_size",
        "owner_creates",
        "owner_creates_burst",
        "owner_polls",
        "owner_polls_burst",
        "calls",
        "owner_calls",
        "queue",
        "owner_queue",
        "streams",
        "owner_streams",
        "parked_calls",
        "owner_parked_calls",
        "backlog",
        "unknown_ids",
        "unknown_ids_delay",
    ],
};
/// The keys of `[metrics]`.
pub(in crate::config) const METRICS: Section = Section { name: "[metrics]", keys: &["listen"] };

/// A number, or the word that there is none.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::config) enum RawCount {
    Number(i64),
    Word(String),
}

impl<'a, 'i> FromValue<'a, 'i> for RawCount {
    const WHAT: &'static str = "a whole number or \"off\"";

    fn read(value: &'a DeValue<'i>, key: &'static str, problems: &Problems) -> Option<Self> {
        match value.as_str() {
            Some(word) => Some(RawCount::Word(word.to_owned())),
            None => i64::read(value, key, problems).map(RawCount::Number),
        }
    }
}

/// How much may be asked.
#[derive(Debug, Default)]
pub(in crate::config) struct RawLimits {
    pub(in crate::config) open_tasks: Entry<RawCount>,
    pub(in crate::config) owner_open_tasks: Entry<RawCount>,
    pub(in crate::config) stored_tasks: Entry<RawCount>,
    pub(in crate::config) owner_stored_tasks: Entry<RawCount>,
    pub(in crate::config) stored_size: Entry<String>,
    pub(in crate::config) owner_stored_size: Entry<String>,
    pub(in crate::config) owner_creates: Entry<RawCount>,
    pub(in crate::config) owner_creates_burst: Entry<i64>,
    pub(in crate::config) owner_polls: Entry<RawCount>,
    pub(in crate::config) owner_polls_burst: Entry<i64>,
    pub(in crate::config) calls: Entry<RawCount>,
    pub(in crate::config) owner_calls: Entry<RawCount>,
    pub(in crate::config) queue: Entry<i64>,
    pub(in crate::config) owner_queue: Entry<i64>,
    pub(in crate::config) streams: Entry<RawCount>,
    pub(in crate::config) owner_streams: Entry<RawCount>,
    pub(in crate::config) parked_calls: Entry<RawCount>,
    pub(in crate::config) owner_parked_calls: Entry<RawCount>,
    pub(in crate::config) backlog: Entry<String>,
    pub(in crate::config) unknown_ids: Entry<RawCount>,
    pub(in crate::config) unknown_ids_delay: Entry<String>,
}

impl RawLimits {
    pub(super) fn read(table: Entry<&DeTable<'_>>, problems: &Problems) -> RawLimits {
        let Some(table) = table else { return RawLimits::default() };
        let fields = Fields::new(table.get_ref(), &LIMITS, &[&TOP], problems);
        RawLimits {
            open_tasks: fields.get("open_tasks"),
            owner_open_tasks: fields.get("owner_open_tasks"),
            stored_tasks: fields.get("stored_tasks"),
            owner_stored_tasks: fields.get("owner_stored_tasks"),
            stored_size: fields.get("stored_size"),
            owner_stored_size: fields.get("owner_stored_size"),
            owner_creates: fields.get("owner_creates"),
            owner_creates_burst: fields.get("owner_creates_burst"),
            owner_polls: fields.get("owner_polls"),
            owner_polls_burst: fields.get("owner_polls_burst"),
            calls: fields.get("calls"),
            owner_calls: fields.get("owner_calls"),
            queue: fields.get("queue"),
            owner_queue: fields.get("owner_queue"),
            streams: fields.get("streams"),
            owner_streams: fields.get("owner_streams"),
            parked_calls: fields.get("parked_calls"),
            owner_parked_calls: fields.get("owner_parked_calls"),
            backlog: fields.get("backlog"),
            unknown_ids: fields.get("unknown_ids"),
            unknown_ids_delay: fields.get("unknown_ids_delay"),
        }
    }
}

/// Where the numbers are served: the address, if one is written.
pub(super) fn metrics(table: Entry<&DeTable<'_>>, problems: &Problems) -> Entry<String> {
    Fields::new(table?.get_ref(), &METRICS, &[&TOP], problems).get("listen")
}

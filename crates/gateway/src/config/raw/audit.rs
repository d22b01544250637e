//! What is written of the audit log.

use toml::de::DeTable;

use super::TOP;
use crate::config::error::Problems;
use crate::config::fields::{Entry, Fields, Section};

/// The keys of `[audit]`.
pub(in crate::config) const AUDIT: Section =
    Section { name: "[audit]", keys: &["file", "stream", "on_failure"] };

/// Where it is kept who has done what.
#[derive(Debug)]
pub(in crate::config) struct RawAudit {
    pub(in crate::config) file: Entry<String>,
    pub(in crate::config) stream: Entry<String>,
    pub(in crate::config) on_failure: Entry<String>,
}

impl RawAudit {
    pub(super) fn read(table: &DeTable<'_>, problems: &Problems) -> RawAudit {
        let fields = Fields::new(table, &AUDIT, &[&TOP], problems);
        RawAudit {
            file: fields.get("file"),
            stream: fields.get("stream"),
            on_failure: fields.get("on_failure"),
        }
    }
}

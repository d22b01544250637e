//! What is written of the connections that are taken, and of TLS on them.

use toml::de::DeTable;

use super::TOP;
use crate::config::error::Problems;
use crate::config::fields::{Entry, Fields, Section};

/// The keys of `[connections]`.
pub(in crate::config) const CONNECTIONS: Section =
    Section { name: "[connections]", keys: &["max", "head_timeout", "body_timeout", "max_head"] };
/// The keys of `[tls]`.
pub(in crate::config) const TLS: Section =
    Section { name: "[tls]", keys: &["certificate", "key", "client_ca"] };

/// What connections may cost.
#[derive(Debug, Default)]
pub(in crate::config) struct RawConnections {
    pub(in crate::config) max: Entry<i64>,
    pub(in crate::config) head_timeout: Entry<String>,
    pub(in crate::config) body_timeout: Entry<String>,
    pub(in crate::config) max_head: Entry<String>,
}

impl RawConnections {
    pub(super) fn read(table: Entry<&DeTable<'_>>, problems: &Problems) -> RawConnections {
        let Some(table) = table else { return RawConnections::default() };
        let fields = Fields::new(table.get_ref(), &CONNECTIONS, &[&TOP], problems);
        RawConnections {
            max: fields.get("max"),
            head_timeout: fields.get("head_timeout"),
            body_timeout: fields.get("body_timeout"),
            max_head: fields.get("max_head"),
        }
    }
}

/// The files of a certificate.
#[derive(Debug)]
pub(in crate::config) struct RawTls {
    pub(in crate::config) certificate: Entry<String>,
    pub(in crate::config) key: Entry<String>,
    pub(in crate::config) client_ca: Entry<String>,
}

impl RawTls {
    pub(super) fn read(table: &DeTable<'_>, problems: &Problems) -> RawTls {
        let fields = Fields::new(table, &TLS, &[&TOP], problems);
        RawTls {
            certificate: fields.get("certificate"),
            key: fields.get("key"),
            client_ca: fields.get("client_ca"),
        }
    }
}

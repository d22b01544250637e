use std::time::Duration;

use taskgate_task::Payload;
use taskgate_wire::Version;
use tokio::sync::mpsc;

use super::event::TaskRequest;

/// How to open a session.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// Who we are: an object with `name` and `version`.
    pub client_info: Payload,
    /// What we declare: in `initialize`, and on each modern request whose call brings no capabilities of its own.
    pub capabilities: Payload,
    /// What is declared in `initialize`, if that is something else.
    pub session_capabilities: Option<Payload>,
    /// Where what the server asks about tasks that are hosted for it goes (2025-11-25); it is refused, if nowhere.
    pub host: Option<mpsc::UnboundedSender<TaskRequest>>,
    /// The version to ask for first. With a version that has a session, `initialize` is sent without a probe, unless
    /// both lanes are wanted.
    pub prefer: Version,
    /// How long to wait for the answer to the probe before the server is taken for one that needs `initialize`.
    pub probe_timeout: Duration,
    /// How long to wait for the answer to `initialize`.
    pub initialize_timeout: Duration,
    /// Whether to open both lanes where the server has both.
    pub both_lanes: bool,
}

impl OpenOptions {
    /// The usual: probe for 2026-07-28, 5 s for the probe, 30 s for `initialize`, one lane, no capabilities.
    pub fn new(name: &str, version: &str) -> Self {
        OpenOptions {
            client_info: object(&serde_json::json!({"name": name, "version": version})),
            capabilities: object(&serde_json::json!({})),
            session_capabilities: None,
            host: None,
            prefer: Version::V2026_07_28,
            probe_timeout: Duration::from_secs(5),
            initialize_timeout: Duration::from_secs(30),
            both_lanes: false,
        }
    }
}

/// How to make a call.
#[derive(Debug, Clone, Default)]
pub struct CallOptions {
    /// Whose call it is. Where a server's question could belong to several calls, it is delivered only if they all
    /// have the same owner: to one of them, and to another if that one ends.
    pub owner: Option<String>,
    /// On the modern lane: what the caller can do. What the session was opened with, if not given.
    pub capabilities: Option<Payload>,
    /// On the modern lane: who the caller is. What the session was opened with, if not given.
    pub client_info: Option<Payload>,
}

/// A value that always reads as JSON.
pub(super) fn object(value: &serde_json::Value) -> Payload {
    Payload::from_value(value).unwrap_or_else(|_| Payload::null())
}

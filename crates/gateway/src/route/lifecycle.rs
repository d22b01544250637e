//! `initialize` and `server/discover`: what this receiver says of itself.

use std::sync::Arc;

use futures_util::future::join_all;
use serde_json::json;
use serde_json::value::RawValue;
use taskgate_task::Payload;
use taskgate_wire::meta::{SERVER_INFO, TASKS_EXTENSION};
use taskgate_wire::{Capabilities, RawObject, RpcError, Version};

use super::{Answer, Caller, Request};
use crate::gateway::Gateway;
use crate::session::{Negotiated, Session};
use crate::upstream::lane;

impl Gateway {
    pub(super) async fn initialize(&self, session: &Arc<Session>, request: &Request<'_>) -> Answer {
        let error = |error: RpcError| error.to_payload();
        let version = Version::negotiate(&request.params.protocol_version().map_err(error)?);
        let raw_capabilities = match request.params.capabilities() {
            Some(raw) => Payload::from_raw(raw),
            None => super::empty(),
        };
        let capabilities = Capabilities::parse(raw_capabilities.as_raw()).ok_or_else(|| {
            error(RpcError::invalid_params("Invalid params: capabilities must be an object"))
        })?;
        // Under these versions the extension does not exist, whatever a client declares.
        let capabilities = Capabilities { tasks_extension: false, ..capabilities };
        if !session.settle(Negotiated { version, capabilities, raw_capabilities }) {
            let message = "The session is initialized already";
            return Err(error(RpcError::new(taskgate_wire::ErrorCode::InvalidRequest, message)));
        }
        let described = self.describe(false).await;
        let mut offered = described.capabilities(false);
        if version >= Version::V2025_11_25 {
            let mut tasks = json!({ "cancel": {}, "requests": { "tools": { "call": {} } } });
            if !session.owner().is_anonymous() {
                tasks["list"] = json!({});
            }
            set(&mut offered, "tasks", &tasks);
        }
        let mut result = RawObject::default();
        set(&mut result, "protocolVersion", version.as_str());
        set(&mut result, "capabilities", &offered);
        set(&mut result, "serverInfo", &self.server_info());
        if let Some(instructions) = &described.instructions {
            set(&mut result, "instructions", instructions);
        }
        result.to_payload().map_err(|broken| error(RpcError::internal(broken.to_string())))
    }

    pub(super) async fn discover(&self, _caller: &Caller) -> Answer {
        let described = self.describe(true).await;
        let mut offered = described.capabilities(true);
        let old = offered.get("extensions").map(ToOwned::to_owned);
        let mut extensions =
            old.as_ref().and_then(|raw| RawObject::parse(raw.get()).ok()).unwrap_or_default();
        // Exactly `{}`: widespread clients take anything else for no support.
        set(&mut extensions, TASKS_EXTENSION, &json!({}));
        set(&mut offered, "extensions", &extensions);
        let mut result = RawObject::default();
        set(&mut result, "resultType", "complete");
        set(&mut result, "supportedVersions", &Version::ALL.map(Version::as_str));
        set(&mut result, "capabilities", &offered);
        if let Some(instructions) = &described.instructions {
            set(&mut result, "instructions", instructions);
        }
        // What an upstream offers can change with its next restart, so nothing is promised to stay.
        set(&mut result, "ttlMs", &0);
        set(&mut result, "cacheScope", "private");
        set(&mut result, "_meta", &json!({ SERVER_INFO: self.server_info() }));
        result.to_payload().map_err(|broken| RpcError::internal(broken.to_string()).to_payload())
    }

    fn server_info(&self) -> serde_json::Value {
        json!({ "name": self.0.settings.server_name, "version": env!("CARGO_PKG_VERSION") })
    }

    /// What the upstreams say of themselves. The first one that is up speaks for all of what is not tools.
    async fn describe(&self, stateless: bool) -> Described {
        let mut described = Described::default();
        // Of all at the same time: several that do not start in time cost no more than one.
        let sessions = join_all(self.0.upstreams.iter().map(|upstream| upstream.session())).await;
        for session in sessions.into_iter().flatten() {
            let lane = lane(&session, stateless);
            let Some(said) = session.server().of(lane) else { continue };
            described.capabilities.push(said.capabilities.clone());
            if described.instructions.is_none() {
                described.instructions = said.instructions.clone();
            }
        }
        described
    }
}

#[derive(Default)]
struct Described {
    capabilities: Vec<Payload>,
    instructions: Option<Payload>,
}

impl Described {
    /// The upstreams' capabilities as ours: the first upstream that has a feature decides how it is declared, and
    /// tools are there in any case. An upstream's own tasks are not passed on.
    fn capabilities(&self, stateless: bool) -> RawObject<'_> {
        let mut all = RawObject::default();
        for capabilities in &self.capabilities {
            let Ok(said) = RawObject::parse(capabilities.as_str()) else { continue };
            let said: Vec<(String, Box<RawValue>)> =
                said.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
            for (name, value) in said {
                if name != "tasks" && all.get(&name).is_none() {
                    all.push(name, value);
                }
            }
        }
        if all.get("tools").is_none() {
            set(&mut all, "tools", &json!({}));
        }
        if !stateless {
            // Extensions belong to versions that negotiate them per request.
            all.remove("extensions");
        }
        all
    }
}

/// Sets a member to something that always reads as JSON.
fn set<'a, T: serde::Serialize + ?Sized>(object: &mut RawObject<'a>, name: &'a str, value: &T) {
    if let Ok(raw) = serde_json::value::to_raw_value(value) {
        object.set(name, raw);
    }
}

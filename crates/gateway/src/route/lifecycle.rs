//! `initialize` and `server/discover`: what this receiver says of itself.

use std::sync::Arc;

use futures_util::future::join_all;
use serde_json::json;
use serde_json::value::RawValue;
use taskgate_client::session::LaneDescription;
use taskgate_task::{Owner, Payload};
use taskgate_wire::meta::{self, IDEMPOTENCY_KEY, SERVER_INFO, TASKS_EXTENSION};
use taskgate_wire::{Capabilities, Dialect, RawObject, RpcError, Version};

use super::{Answer, Caller, Request, capabilities};
use crate::audit::Client;
use crate::gateway::Gateway;
use crate::session::{Negotiated, Session};

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
        if self.0.audit.is_some()
            && let Some(info) = request.params.client_info()
        {
            session.introduce(Client::of(info));
        }
        let name = request.params.client_info().and_then(meta::client_name);
        // What a client declares counts where its version has it.
        let knows_tasks = capabilities.tasks && Dialect::of(version) == Some(Dialect::D2025_11_25);
        let budget = self.0.settings.hosts.budget_of(name.as_deref()).filter(|_| !knows_tasks);
        if !session.settle(Negotiated { version, capabilities, raw_capabilities, budget }) {
            let message = "The session is initialized already";
            return Err(error(RpcError::new(taskgate_wire::ErrorCode::InvalidRequest, message)));
        }
        let described = self.describe(session.owner(), false).await;
        let mut offered = described.capabilities()?;
        if version >= Version::V2025_11_25 {
            let mut tasks = json!({ "cancel": {}, "requests": { "tools": { "call": {} } } });
            if !session.owner().is_anonymous() {
                tasks["list"] = json!({});
            }
            set(&mut offered, "tasks", &tasks);
            announce_keys(&mut offered, session.owner());
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

    pub(super) async fn discover(&self, caller: &Caller) -> Answer {
        let described = self.describe(caller.owner(), true).await;
        let mut offered = described.capabilities()?;
        let theirs = offered.get("extensions").map(ToOwned::to_owned);
        let mut extensions =
            theirs.as_ref().and_then(|raw| RawObject::parse(raw.get()).ok()).unwrap_or_default();
        // Exactly `{}`: widespread clients take anything else for no support.
        set(&mut extensions, TASKS_EXTENSION, &json!({}));
        set(&mut offered, "extensions", &extensions);
        announce_keys(&mut offered, caller.owner());
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

    /// What this owner's upstreams say of themselves, those that are down what they said last.
    pub(super) async fn describe(&self, owner: &Owner, stateless: bool) -> Described {
        let upstreams = self.upstreams(owner).await;
        let asked = upstreams.iter().map(|upstream| async move {
            Some((upstream.name().to_owned(), upstream.described(stateless).await?))
        });
        let said: Vec<_> = join_all(asked).await.into_iter().flatten().collect();
        let instructions = capabilities::instructions(&said);
        let mut said: Vec<LaneDescription> = said.into_iter().map(|(_, said)| said).collect();
        if self.0.settings.reloads {
            said.extend(capabilities::changing(&said));
        }
        Described { said, instructions }
    }
}

/// What the upstreams say of themselves.
pub(super) struct Described {
    said: Vec<LaneDescription>,
    instructions: Option<Box<RawValue>>,
}

impl Described {
    /// The upstreams' capabilities as ours. Tools are there in any case.
    fn capabilities(&self) -> Result<RawObject<'static>, Payload> {
        let mut merged = capabilities::merged(&self.said)
            .map_err(|broken| RpcError::internal(broken.to_string()).to_payload())?;
        if merged.get("tools").is_none() {
            set(&mut merged, "tools", &json!({}));
        }
        Ok(merged)
    }

    /// Whether one of them says `true` for `what` of a feature.
    pub(super) fn offers(&self, feature: &str, what: &str) -> bool {
        self.said.iter().any(|said| said.offers(feature, what))
    }
}

/// Says that idempotency keys count, to callers for whom they do. What an upstream says of them is not passed on: they end here.
fn announce_keys(offered: &mut RawObject<'static>, owner: &Owner) {
    let theirs = offered.get("experimental").map(ToOwned::to_owned);
    let theirs = theirs.as_ref().and_then(|raw| RawObject::parse(raw.get()).ok());
    let had_any = theirs.is_some();
    let mut experimental = theirs.unwrap_or_default();
    experimental.remove(IDEMPOTENCY_KEY);
    if !owner.is_anonymous() {
        set(&mut experimental, IDEMPOTENCY_KEY, &json!({}));
    }
    if had_any || !experimental.is_empty() {
        set(offered, "experimental", &experimental);
    }
}

/// Sets a member to something that always reads as JSON.
fn set<'a, T: serde::Serialize + ?Sized>(object: &mut RawObject<'a>, name: &'a str, value: &T) {
    if let Ok(raw) = serde_json::value::to_raw_value(value) {
        object.set(name, raw);
    }
}

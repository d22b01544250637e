//! `tools/list`: the upstreams' lists, with what each generation wants to see of tasks.

use serde::Serialize;
use taskgate_client::session::{CallFailure, CallOptions};
use taskgate_task::Payload;
use taskgate_wire::tool::{self, TaskSupport};
use taskgate_wire::{Dialect, RawObject, RpcError, method};

use super::{Answer, Caller, Request};
use crate::gateway::Gateway;
use crate::policy::TaskMode;
use crate::upstream::{Upstream, lane};

impl Gateway {
    pub(super) async fn list_tools(&self, caller: &Caller, request: &Request<'_>) -> Answer {
        match &*self.0.upstreams {
            [only] => self.list_one(only, caller, request).await,
            _ => self.list_merged(caller).await,
        }
    }

    /// A single upstream's page, relayed: its order, its cursors, its unknown members.
    async fn list_one(&self, upstream: &Upstream, caller: &Caller, request: &Request<'_>) -> Answer {
        let session = upstream.session().await.map_err(|error| error.to_payload())?;
        let options = CallOptions {
            owner: Some(caller.attribution(request.id)),
            capabilities: caller.raw_capabilities().map(|raw| super::call_tool::without_tasks(&raw)),
            client_info: None,
        };
        let lane = lane(&session, caller.is_stateless());
        let call = session.call(lane, method::TOOLS_LIST, request.raw.map(Payload::as_raw), options);
        let answer = call.outcome().await.map_err(|failure| match failure {
            CallFailure::Rpc(error) => error,
            other => RpcError::internal(other.to_string()).to_payload(),
        })?;
        self.edit_page(upstream, caller, &answer)
            .map_err(|error| RpcError::internal(format!("tools/list of the server: {error}")).to_payload())
    }

    fn edit_page(
        &self,
        upstream: &Upstream,
        caller: &Caller,
        answer: &Payload,
    ) -> Result<Payload, taskgate_task::InvalidPayload> {
        let mut page = RawObject::parse(answer.as_str())?;
        let tools = page.get("tools").map(ToOwned::to_owned);
        let tools: Vec<Payload> = match &tools {
            Some(tools) => serde_json::from_str(tools.get())?,
            None => Vec::new(),
        };
        let tools: Vec<Payload> =
            tools.iter().map(|definition| self.edit_tool(upstream, caller, definition)).collect();
        page.set("tools", serde_json::value::to_raw_value(&tools)?);
        if caller.is_stateless() {
            for (name, default) in
                [("resultType", "\"complete\""), ("ttlMs", "0"), ("cacheScope", "\"private\"")]
            {
                if page.get(name).is_none() {
                    page.set(name, serde_json::from_str(default)?);
                }
            }
        } else {
            for name in ["resultType", "ttlMs", "cacheScope"] {
                page.remove(name);
            }
        }
        page.to_payload()
    }

    /// A definition as this caller should see it; one that cannot be read is passed on as it is.
    fn edit_tool(&self, upstream: &Upstream, caller: &Caller, definition: &Payload) -> Payload {
        let edit = || {
            let facts = tool::ToolFacts::read(definition.as_raw())?;
            let name = self.public_name(upstream, &facts.name);
            match caller.dialect() {
                Some(Dialect::D2026_07_28) => tool::for_stateless(definition.as_raw(), name.as_deref()),
                Some(Dialect::D2025_11_25) => {
                    let support = match upstream.spec().policy_of(&facts.name).tasks {
                        TaskMode::Auto => TaskSupport::Optional,
                        TaskMode::Always => TaskSupport::Required,
                        TaskMode::Never => TaskSupport::Forbidden,
                    };
                    tool::for_session(definition.as_raw(), name.as_deref(), Some(support))
                }
                None => tool::for_session(definition.as_raw(), name.as_deref(), None),
            }
        };
        edit().unwrap_or_else(|_| definition.clone())
    }

    /// All tools of all upstreams that are up, on one page, in the order of the configuration.
    async fn list_merged(&self, caller: &Caller) -> Answer {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Page {
            #[serde(skip_serializing_if = "Option::is_none")]
            result_type: Option<&'static str>,
            tools: Vec<Payload>,
            #[serde(skip_serializing_if = "Option::is_none")]
            ttl_ms: Option<u64>,
            #[serde(skip_serializing_if = "Option::is_none")]
            cache_scope: Option<&'static str>,
        }
        // One dead upstream does not empty the list; what it had is still listed and answers with an error.
        self.refresh_tools().await;
        let tools = self.0.upstreams.iter().flat_map(|upstream| {
            let catalog = upstream.catalog();
            let edited =
                catalog.tools().iter().map(|known| self.edit_tool(upstream, caller, &known.definition));
            edited.collect::<Vec<_>>()
        });
        let stateless = caller.is_stateless();
        let page = Page {
            result_type: stateless.then_some("complete"),
            tools: tools.collect(),
            ttl_ms: stateless.then_some(0),
            cache_scope: stateless.then_some("private"),
        };
        Payload::from_value(&page).map_err(|error| RpcError::internal(error.to_string()).to_payload())
    }
}

//! Requests of 2026-07-28: each brings everything itself, and closing its stream cancels it.

use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use taskgate_task::Payload;
use taskgate_wire::{Id, Params, RpcError, method};

use super::entrance::Sender;
use super::{error, headers, reply};
use crate::backlog::Backlog;
use crate::gateway::{Gateway, Target};
use crate::route::{Caller, Request};
use crate::server::stateless_caller;
use crate::session::Outlet;

/// Answers a request.
pub async fn request(
    gateway: Gateway,
    headers: HeaderMap,
    sender: Sender,
    id: Id,
    method: String,
    raw: Option<Payload>,
    params: &Params<'_>,
) -> Response {
    let (caller, tool) = match check(&gateway, &headers, &sender, &method, params).await {
        Ok(checked) => checked,
        Err(wrong) => return error(StatusCode::BAD_REQUEST, Some(id), &wrong),
    };
    let arrival = sender.arrival;
    // Task verbs are answered at once and never stream: they need no machinery.
    if matches!(method.as_str(), method::TASKS_GET | method::TASKS_UPDATE | method::TASKS_CANCEL) {
        let (raw, params, meta) = (raw.as_ref(), *params, params.meta());
        let request = Request { id: &id, method: &method, raw, params, meta, arrival: &arrival, tool: None };
        let answered = gateway.answer(&caller, &request, &Outlet::nowhere()).await;
        return reply::whole(id, answered, true);
    }
    let (out, messages) = Outlet::new(Backlog::of_stream(&gateway.0.limits));
    // A subscription has no other form than a stream, whatever its caller says it can read.
    let can_stream = headers::accepts_stream(&headers) || method == method::LISTEN;
    let keep_alive = gateway.0.settings.keep_alive;
    let request_id = id.clone();
    // The stream owns the work: when the client closes it, the work is dropped, which cancels it.
    let run = Box::pin(async move {
        let raw = raw.as_ref();
        let params = Params::parse(raw).map_err(|error| error.to_payload())?;
        let (meta, tool, arrival) = (params.meta(), tool.as_ref(), &arrival);
        let request = Request { id: &request_id, method: &method, raw, params, meta, arrival, tool };
        gateway.answer(&caller, &request, &out).await
    });
    let reply = reply::Reply { id, run, messages, keep_alive, can_stream };
    // Boxed, as are the longer ways below: each request's future is as large as its largest part.
    Box::pin(reply.respond()).await
}

/// Everything that must fit before anything runs. Returns who calls, and the tool that is called, if it is one: it has been
/// looked for, as it must not be called with headers that nobody has compared with its definition.
async fn check(
    gateway: &Gateway,
    headers: &HeaderMap,
    sender: &Sender,
    name: &str,
    params: &Params<'_>,
) -> Result<(Caller, Option<Result<Target, RpcError>>), RpcError> {
    let said = params.meta().protocol_version.map(|raw| serde_json::from_str::<String>(raw.get()));
    if let Some(Ok(version)) = &said {
        headers::check(headers, name, params, version)?;
    }
    let caller = stateless_caller(params, sender.owner.clone())?;
    let mut tool = None;
    if name == method::TOOLS_CALL
        && let Ok(called) = params.name()
        && gateway.companion(&caller, &params.meta(), &called).await.is_none()
    {
        let found = gateway.find_tool(caller.owner(), sender.arrival.identity(), &called).await;
        if let Ok(target) = &found {
            headers::check_arguments(headers, target.headers(), params)?;
        }
        tool = Some(found);
    }
    Ok((caller, tool))
}

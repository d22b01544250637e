//! Servers that live in this process, built on the `rmcp` crate. No other file names it.
//!
//! Messages go from channel to channel and are never written as text: our raw params become the one type that
//! belongs to their method, and `rmcp`'s results are serialized once.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use rmcp::model::{
    CancelledNotificationParam, ClientJsonRpcMessage, ClientNotification, ClientRequest, ClientResult,
    CustomNotification, CustomRequest, CustomResult, ErrorData, GetExtensions, JsonRpcMessage,
    NumberOrString, PaginatedRequestParams, Request, RequestId, RequestMetaObject, RequestNoParam,
    RequestOptionalParam, RequestParamsMeta, ServerJsonRpcMessage, ServerNotification, ServerRequest,
};
use rmcp::service::{
    NotificationContext, OriginatingRequestId, QuitReason, RequestContext, Service, ServiceRole,
};
use rmcp::transport::Transport;
use rmcp::{RoleServer, ServerHandler};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use taskgate_client::transport::memory::{self, FarEnd};
use taskgate_client::transport::{CloseCause, CloseReason, Inbound, Link};
use taskgate_task::Payload;
use taskgate_wire::{Id, Message, RpcError, method};
use tokio::sync::mpsc;

use super::checkpoint::{TICKET, redeem};

/// Messages that may wait in either direction.
const QUEUE: usize = 256;

/// Runs a handler in a task of its own and connects to it. The handler ends when the link is dropped.
pub fn serve<H: ServerHandler>(handler: H) -> Link {
    let (link, FarEnd { inbox, out }) = memory::pair(QUEUE);
    let transport = Channels { inbox, out: out.clone(), asked: HashMap::new(), unsent: None, started: false };
    tokio::spawn(async move {
        let reason = match rmcp::serve_server(Guarded(handler), transport).await {
            Err(error) => CloseReason::failed(error.to_string()),
            Ok(running) => match running.waiting().await {
                Ok(QuitReason::Closed | QuitReason::Cancelled) => CloseReason::new(CloseCause::PeerClosed),
                Ok(reason) => CloseReason::failed(format!("{reason:?}")),
                Err(error) => CloseReason::failed(error.to_string()),
            },
        };
        // Nobody listens any more if it was our side that closed.
        let _ = out.send(Inbound::Closed(reason)).await;
    });
    link
}

/// A handler whose panics are answers. `rmcp` runs every request in a task of its own and forgets it, so the caller
/// of one that panics would wait for ever.
struct Guarded<H>(H);

impl<H: ServerHandler> Service<RoleServer> for Guarded<H> {
    // `rmcp` moves what this returns from hand to hand before it runs, and a handler's future has room for the largest of all its
    // methods: so it lies in a box.
    fn handle_request(
        &self,
        request: ClientRequest,
        context: RequestContext<RoleServer>,
    ) -> impl Future<Output = Result<<RoleServer as ServiceRole>::Resp, ErrorData>> + Send {
        Box::pin(AssertUnwindSafe(self.0.handle_request(request, context)).catch_unwind()).map(|ended| {
            ended.unwrap_or_else(|panic| {
                let words = panic.downcast_ref::<&str>().map(|words| (*words).to_owned());
                let words = words.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
                Err(ErrorData::internal_error(format!("The server's handler panicked: {words}"), None))
            })
        })
    }

    async fn handle_notification(
        &self,
        notification: ClientNotification,
        context: NotificationContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.0.handle_notification(notification, context).await
    }

    fn get_info(&self) -> <RoleServer as ServiceRole>::Info {
        ServerHandler::get_info(&self.0)
    }

    fn supported_protocol_versions(&self) -> std::borrow::Cow<'static, [rmcp::model::ProtocolVersion]> {
        ServerHandler::supported_protocol_versions(&self.0)
    }
}

/// Our channels, as `rmcp` wants to see them.
struct Channels {
    inbox: mpsc::Receiver<Message>,
    out: mpsc::Sender<Inbound>,
    /// What the handler asked and was not answered yet: the kind of a question decides how its answer is read.
    asked: HashMap<RequestId, Asked>,
    /// An error answer of ours on its way. It waits here because [`Transport::receive`] may be dropped at any moment.
    unsent: Option<Inbound>,
    /// Whether a request has opened the conversation. Before that, `rmcp` ends at the sight of a notification.
    started: bool,
}

#[derive(Clone, Copy)]
enum Asked {
    Elicitation,
    Sampling,
    Roots,
    Other,
}

/// The client has gone.
#[derive(Debug, thiserror::Error)]
#[error("the connection to the gateway is closed")]
struct Gone;

impl Transport<RoleServer> for Channels {
    type Error = Gone;

    fn send(
        &mut self,
        item: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Gone>> + Send + 'static {
        if let JsonRpcMessage::Request(asking) = &item {
            let asked = match &asking.request {
                ServerRequest::ElicitRequest(_) => Asked::Elicitation,
                ServerRequest::CreateMessageRequest(_) => Asked::Sampling,
                ServerRequest::ListRootsRequest(_) => Asked::Roots,
                _ => Asked::Other,
            };
            self.asked.insert(asking.id.clone(), asked);
        }
        let out = self.out.clone();
        async move {
            match outgoing(item) {
                Ok(inbound) => out.send(inbound).await.map_err(|_| Gone),
                Err(error) => {
                    tracing::warn!(%error, "the handler said something that cannot be written as JSON");
                    Ok(())
                }
            }
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            if self.unsent.is_some() {
                let room = self.out.reserve().await.ok()?;
                if let Some(unsent) = self.unsent.take() {
                    room.send(unsent);
                }
            }
            let message = self.inbox.recv().await?;
            match self.incoming(message) {
                Ok(Some(message)) => return Some(message),
                Ok(None) => {}
                Err(answer) => self.unsent = Some(answer.into()),
            }
        }
    }

    async fn close(&mut self) -> Result<(), Gone> {
        self.inbox.close();
        Ok(())
    }
}

impl Channels {
    /// Our message as `rmcp`'s; nothing if it is to be passed over, or the error to answer with.
    fn incoming(&mut self, message: Message) -> Result<Option<ClientJsonRpcMessage>, Message> {
        match message {
            Message::Request { id, method, params } => {
                let number = request_id(&id).ok_or_else(|| {
                    Message::error(Some(id.clone()), &RpcError::invalid_params("Invalid params: id"))
                })?;
                let request = request(&method, params.as_ref())
                    .map_err(|error| Message::error(Some(id.clone()), &error))?;
                self.started |= !matches!(method.as_str(), method::DISCOVER | method::PING);
                Ok(Some(JsonRpcMessage::request(request, number)))
            }
            Message::Notification { method, params } if self.started => {
                match notification(&method, params.as_ref()) {
                    Ok(notification) => Ok(Some(JsonRpcMessage::notification(notification))),
                    Err(error) => {
                        tracing::debug!(%error, method, "a notification was passed over");
                        Ok(None)
                    }
                }
            }
            Message::Notification { .. } => Ok(None),
            Message::Response { id, result } => {
                let Some(id) = request_id(&id) else { return Ok(None) };
                let kind = self.asked.remove(&id).unwrap_or(Asked::Other);
                // The handler is told that the answer makes no sense, instead of being left to wait.
                Ok(Some(match answer(kind, &result) {
                    Ok(answer) => JsonRpcMessage::response(answer, id),
                    Err(error) => JsonRpcMessage::error(
                        ErrorData::invalid_params(format!("The answer is malformed: {error}"), None),
                        Some(id),
                    ),
                }))
            }
            Message::Error { id, error } => {
                let id = id.as_ref().and_then(request_id);
                if let Some(id) = &id {
                    self.asked.remove(id);
                }
                let error = read::<ErrorData>(&error)
                    .unwrap_or_else(|_| ErrorData::internal_error("The error answer is malformed", None));
                Ok(Some(JsonRpcMessage::error(error, id)))
            }
        }
    }
}

/// Reads params straight as the type their method has.
///
/// `rmcp`'s own reading tries one request type after the other on a buffered copy and accepts what fits none of them
/// as a custom request, which is slow and turns wrong params into "method not found".
fn request(method: &str, params: Option<&Payload>) -> Result<ClientRequest, RpcError> {
    Ok(match method {
        method::TOOLS_CALL => {
            let mut request = typed(params)?;
            redeem_ticket(&mut request);
            ClientRequest::CallToolRequest(request)
        }
        method::TOOLS_LIST => ClientRequest::ListToolsRequest(paged(params)?),
        method::INITIALIZE => ClientRequest::InitializeRequest(typed(params)?),
        method::DISCOVER => {
            let mut request = Request::new(rmcp::model::DiscoverRequestParams {});
            carry(meta(params)?, &mut request);
            ClientRequest::DiscoverRequest(request)
        }
        method::PING => {
            let mut request = RequestNoParam::default();
            carry(meta(params)?, &mut request);
            ClientRequest::PingRequest(request)
        }
        method::PROMPTS_GET => ClientRequest::GetPromptRequest(typed(params)?),
        "prompts/list" => ClientRequest::ListPromptsRequest(paged(params)?),
        "resources/list" => ClientRequest::ListResourcesRequest(paged(params)?),
        "resources/templates/list" => ClientRequest::ListResourceTemplatesRequest(paged(params)?),
        method::RESOURCES_READ => ClientRequest::ReadResourceRequest(typed(params)?),
        method::SUBSCRIBE => ClientRequest::SubscribeRequest(typed(params)?),
        method::UNSUBSCRIBE => ClientRequest::UnsubscribeRequest(typed(params)?),
        "completion/complete" => ClientRequest::CompleteRequest(typed(params)?),
        method::SET_LEVEL => ClientRequest::SetLevelRequest(typed(params)?),
        method::LISTEN => ClientRequest::SubscriptionsListenRequest(typed(params)?),
        method::TASKS_GET => ClientRequest::GetTaskRequest(typed(params)?),
        method::TASKS_UPDATE => ClientRequest::UpdateTaskRequest(typed(params)?),
        method::TASKS_CANCEL => ClientRequest::CancelTaskRequest(typed(params)?),
        _ => other(method, params)?,
    })
}

fn typed<M, P>(params: Option<&Payload>) -> Result<Request<M, P>, RpcError>
where
    M: Default,
    P: DeserializeOwned + RequestParamsMeta,
{
    let mut params: P = serde_json::from_str(params.map_or("{}", Payload::as_str)).map_err(invalid)?;
    let meta = params.meta_mut().take();
    let mut request = Request::new(params);
    carry(meta, &mut request);
    Ok(request)
}

fn paged<M: Default>(
    params: Option<&Payload>,
) -> Result<RequestOptionalParam<M, PaginatedRequestParams>, RpcError> {
    let mut params: Option<PaginatedRequestParams> = params.map(read).transpose().map_err(invalid)?;
    let meta = params.as_mut().and_then(|params| params.meta.take());
    let mut request = RequestOptionalParam { method: M::default(), params, extensions: Default::default() };
    if let Some(meta) = meta {
        request.extensions.insert(meta);
    }
    Ok(request)
}

/// Methods that are rare, or that `rmcp` does not know.
fn other(method: &str, params: Option<&Payload>) -> Result<ClientRequest, RpcError> {
    if method.starts_with("skills/") || method == "resources/directory/read" {
        let text = serde_json::to_string(&Envelope { method, params }).map_err(invalid)?;
        return serde_json::from_str(&text).map_err(invalid);
    }
    let mut request = CustomRequest::new(method, params.map(read).transpose().map_err(invalid)?);
    // The metadata is kept apart from the params, as in every other request.
    if let Some(params) = request.params.as_mut().and_then(serde_json::Value::as_object_mut) {
        params.shift_remove("_meta");
    }
    carry(meta(params)?, &mut request);
    Ok(ClientRequest::CustomRequest(request))
}

/// `rmcp` hands a request's `_meta` to its handler from the request's extensions.
fn carry(meta: Option<RequestMetaObject>, request: &mut impl GetExtensions) {
    if let Some(meta) = meta {
        request.extensions_mut().insert(meta);
    }
}

/// Puts the checkpoints of a call where its handler finds them. Whatever a caller may have written there is taken out.
fn redeem_ticket(request: &mut impl GetExtensions) {
    let extensions = request.extensions_mut();
    let ticket = extensions.get_mut::<RequestMetaObject>().and_then(|meta| meta.remove(TICKET));
    if let Some(checkpoint) = ticket.as_ref().and_then(serde_json::Value::as_str).and_then(redeem) {
        extensions.insert(checkpoint);
    }
}

fn meta(params: Option<&Payload>) -> Result<Option<RequestMetaObject>, RpcError> {
    #[derive(Deserialize)]
    struct WithMeta {
        #[serde(default, rename = "_meta")]
        meta: Option<RequestMetaObject>,
    }
    match params {
        None => Ok(None),
        Some(params) => read::<WithMeta>(params).map(|with| with.meta).map_err(invalid),
    }
}

fn notification(method: &str, params: Option<&Payload>) -> Result<ClientNotification, serde_json::Error> {
    if method == method::CANCELLED {
        let params: CancelledNotificationParam = serde_json::from_str(params.map_or("{}", Payload::as_str))?;
        return Ok(ClientNotification::CancelledNotification(rmcp::model::Notification::new(params)));
    }
    let text = serde_json::to_string(&Envelope { method, params })?;
    match serde_json::from_str(&text) {
        Ok(notification) => Ok(notification),
        Err(_) => {
            let params = params.map(read).transpose()?;
            Ok(ClientNotification::CustomNotification(CustomNotification::new(method, params)))
        }
    }
}

fn answer(kind: Asked, result: &Payload) -> Result<ClientResult, serde_json::Error> {
    Ok(match kind {
        Asked::Elicitation => ClientResult::ElicitResult(read(result)?),
        Asked::Sampling => ClientResult::CreateMessageResult(read(result)?),
        Asked::Roots => ClientResult::ListRootsResult(read(result)?),
        Asked::Other => ClientResult::CustomResult(CustomResult(read(result)?)),
    })
}

/// `rmcp`'s message as ours.
fn outgoing(message: ServerJsonRpcMessage) -> Result<Inbound, serde_json::Error> {
    Ok(match message {
        JsonRpcMessage::Response(response) => {
            Message::Response { id: id(&response.id), result: written(&response.result)? }.into()
        }
        JsonRpcMessage::Error(error) => {
            Message::Error { id: error.id.as_ref().map(id), error: written(&error.error)? }.into()
        }
        JsonRpcMessage::Notification(said) => {
            let (method, params) = unpack::<ServerNotification>(&said.notification)?;
            Message::Notification { method, params }.into()
        }
        JsonRpcMessage::Request(asking) => {
            let (method, params) = unpack::<ServerRequest>(&asking.request)?;
            let origin =
                asking.request.extensions().get::<OriginatingRequestId>().map(|origin| id(&origin.0));
            Inbound::Message { message: Message::Request { id: id(&asking.id), method, params }, origin }
        }
    })
}

/// Only `rmcp`'s own serializing puts method, params and metadata together; the rare messages go through it.
fn unpack<T: Serialize>(message: &T) -> Result<(String, Option<Payload>), serde_json::Error> {
    #[derive(Deserialize)]
    struct Unpacked<'a> {
        method: String,
        #[serde(borrow, default)]
        params: Option<&'a RawValue>,
    }
    let text = serde_json::to_string(message)?;
    let Unpacked { method, params } = serde_json::from_str(&text)?;
    Ok((method, params.map(Payload::from_raw)))
}

#[derive(Serialize)]
struct Envelope<'a> {
    method: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    params: Option<&'a Payload>,
}

fn request_id(id: &Id) -> Option<RequestId> {
    match id.as_number().and_then(|number| i64::try_from(number).ok()) {
        Some(number) => Some(NumberOrString::Number(number)),
        None => serde_json::from_str(id.as_str()).ok(),
    }
}

fn id(id: &RequestId) -> Id {
    match id {
        NumberOrString::Number(number) if *number >= 0 => Id::number(number.unsigned_abs()),
        other => serde_json::value::to_raw_value(other)
            .ok()
            .and_then(|raw| Id::from_raw(&raw))
            .unwrap_or_else(|| Id::number(u64::MAX)),
    }
}

fn read<T: DeserializeOwned>(payload: &Payload) -> Result<T, serde_json::Error> {
    serde_json::from_str(payload.as_str())
}

fn written<T: Serialize>(value: &T) -> Result<Payload, serde_json::Error> {
    serde_json::value::to_raw_value(value).map(Payload::from)
}

fn invalid(error: serde_json::Error) -> RpcError {
    RpcError::invalid_params(format!("Invalid params: {error}"))
}

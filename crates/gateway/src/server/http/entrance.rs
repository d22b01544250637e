//! Who is let in, where tokens are needed, and what each token allows. Decided before the body is read, and anew for every request:
//! a session does not remember what a token allowed.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{Extensions, HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use taskgate_access::{Access, Identity, Refusal};
use taskgate_task::{Owner, Payload};
use taskgate_wire::jsonrpc::parse_batch;
use taskgate_wire::{ErrorCode, Id, Message, Params, RpcError, method};
use tokio::time::Instant;

use super::accept::ShownCertificate;
use super::{busy, error, expiry, guard, headers, json};
use crate::audit::{Line, Reason};
use crate::gateway::Gateway;
use crate::route::{Arrival, method_of_companion};

/// After how many seconds an issuer may answer again.
const LATER: u16 = 5;

/// The id of no session.
const NO_SESSION: HeaderValue = HeaderValue::from_static("-");

/// Puts a door before the endpoint, and a sign beside it, if tokens are needed.
pub fn with_door(gateway: &Gateway, endpoint: MethodRouter<Gateway>) -> Router<Gateway> {
    let settings = &gateway.0.settings;
    let Some(access) = &gateway.0.access else { return Router::new().route(&settings.path, endpoint) };
    let endpoint = endpoint.layer(from_fn_with_state(gateway.clone(), enter));
    let router = Router::new().route(&settings.path, endpoint);
    // Clients look at the first, and at the root after it. What lies in between is our own path, should a proxy have changed it.
    let root = taskgate_access::WELL_KNOWN;
    let signs = [access.resource().metadata_path(), format!("{root}{}", settings.path), root.to_owned()];
    let signs: BTreeSet<String> =
        signs.into_iter().map(|path| path.trim_end_matches('/').to_owned()).collect();
    signs.into_iter().fold(router, |router, path| router.route(&path, get(describe)))
}

/// GET: what this server is and whose tokens it takes (RFC 9728). For everybody.
async fn describe(State(gateway): State<Gateway>, headers: HeaderMap) -> Response {
    if let Err(refused) = guard::check(&gateway, &headers) {
        return refused;
    }
    let name = &gateway.0.settings.server_name;
    match gateway.0.access.as_ref().and_then(|access| access.metadata(name)) {
        Some(described) => json(StatusCode::OK, described),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

/// Lets a request in, or answers it.
async fn enter(State(gateway): State<Gateway>, mut request: Request, next: Next) -> Response {
    let Some(access) = &gateway.0.access else { return next.run(request).await };
    if let Err(refused) = guard::check(&gateway, request.headers()) {
        return refused;
    }
    let peer = peer(request.extensions());
    let shown = request.extensions().get::<ShownCertificate>().cloned();
    let identity = match identify(access, peer, shown, request.headers()).await {
        Ok(identity) => Arc::new(identity),
        Err(refusal) => return refuse(&gateway, access, Refused { peer, ..Refused::default() }, &refusal),
    };
    // Of a POST it is known what it needs once it has been read, and all of that is told at once.
    if request.method() != axum::http::Method::POST
        && let Err(refusal) = access.rights().check(&identity, [], [])
    {
        let refused = Refused { peer, owner: Some(&identity.owner), ..Refused::default() };
        return refuse(&gateway, access, refused, &refusal);
    }
    let owner = Owner::named(&identity.owner);
    let headers = request.headers_mut();
    // Nothing behind this can pass it on.
    headers.remove(header::AUTHORIZATION);
    if let Some(id) = headers::session_id(headers)
        && gateway.0.sessions.belongs_to_another(id, &owner)
    {
        // What is somebody else's does not exist, and so the answer is that to an unknown one, whatever is asked.
        headers::rename_session(headers, NO_SESSION);
        gateway.turned_away(Reason::ForeignSession, |line| Line {
            owner: Some(owner.as_str()),
            peer,
            ..line
        });
    }
    request.extensions_mut().insert(Entrant { owner, identity });
    next.run(request).await
}

async fn identify(
    access: &Access,
    peer: Option<IpAddr>,
    certificate: Option<ShownCertificate>,
    headers: &HeaderMap,
) -> Result<Identity, Refusal> {
    if let Some(proxy) = access.proxy()
        && let Some(vouched) =
            proxy.vouched(peer, headers.get_all(&proxy.header).iter().map(HeaderValue::as_bytes))?
    {
        return Ok(vouched);
    }
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let shown = values.next().map(HeaderValue::as_bytes);
    if values.next().is_some() {
        return Err(Refusal::Ambiguous);
    }
    // A token says more than a certificate, which may be that of a program that acts for many.
    let identity = match (shown, access.certificates(), certificate.as_deref()) {
        (None, Some(certificates), Some(certified)) => {
            certified.as_ref().map_err(Clone::clone).and_then(|certified| certificates.identify(certified))
        }
        _ => access.check(shown).await,
    };
    if let Err(refusal) = &identity {
        tracing::info!(%refusal, "a caller was not let in");
    }
    identity
}

/// Where a request comes from, if anybody wants to know that.
fn peer(extensions: &Extensions) -> Option<IpAddr> {
    extensions.get().map(|ConnectInfo(peer): &ConnectInfo<SocketAddr>| peer.ip())
}

/// What is known of a request that is refused.
#[derive(Default)]
struct Refused<'a> {
    peer: Option<IpAddr>,
    owner: Option<&'a str>,
    id: Option<&'a Id>,
    method: Option<&'a str>,
    tool: Option<&'a str>,
}

/// A refusal as an answer.
fn refuse(gateway: &Gateway, access: &Access, refused: Refused<'_>, refusal: &Refusal) -> Response {
    let reason = if refusal.status() == 403 { Reason::Forbidden } else { Reason::Unauthorized };
    let Refused { peer, owner, id, method, tool } = refused;
    gateway.turned_away(reason, |line| Line {
        owner,
        method,
        tool,
        request_id: id.map(Id::as_str),
        why: Some(refusal.to_string().into()),
        peer,
        ..line
    });
    let id = id.cloned();
    let status = StatusCode::from_u16(refusal.status()).unwrap_or(StatusCode::UNAUTHORIZED);
    let wrong = RpcError::new(ErrorCode::InvalidRequest, refusal.to_string());
    if let Refusal::Unavailable(_) = refusal {
        return busy(status, id, &wrong, LATER);
    }
    let mut response = error(status, id, &wrong);
    // The challenge has only characters that a header can have; without one the status still says it.
    if let Ok(challenge) = HeaderValue::from_str(&access.challenge(refusal)) {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    }
    response
}

/// A caller that was let in.
#[derive(Clone)]
struct Entrant {
    owner: Owner,
    identity: Arc<Identity>,
}

/// Who sends a request.
#[derive(Clone)]
pub struct Sender {
    /// Whose tasks it sees.
    pub owner: Owner,
    /// What else is known of it.
    pub arrival: Arrival,
}

impl Sender {
    /// Whoever was let in with this request, or else the one owner of all.
    pub fn of(gateway: &Gateway, extensions: &Extensions) -> Sender {
        match extensions.get() {
            Some(Entrant { owner, identity }) => {
                let arrival = Arrival { identity: Some(identity.clone()), peer: peer(extensions) };
                Sender { owner: owner.clone(), arrival }
            }
            None => {
                let arrival = Arrival { identity: None, peer: peer(extensions) };
                Sender { owner: gateway.http_owner(), arrival }
            }
        }
    }

    /// When the sender's token ends; `None` if it does not.
    pub fn end(&self) -> Option<Instant> {
        self.arrival.identity()?.lasts().map(|lasts| Instant::now() + lasts)
    }

    /// An answer that may take long, as far as it comes before the sender's token ends.
    pub async fn until(
        &self,
        end: Instant,
        gateway: &Gateway,
        answer: impl Future<Output = Response>,
    ) -> Response {
        match (expiry::until(end, answer).await, &gateway.0.access) {
            (Some(response), _) => response,
            (None, Some(access)) => {
                let owner = Some(self.owner.as_str());
                let refused = Refused { peer: self.arrival.peer, owner, ..Refused::default() };
                refuse(gateway, access, refused, &Refusal::Expired)
            }
            (None, None) => StatusCode::UNAUTHORIZED.into_response(),
        }
    }

    /// The answer to a message that the sender's token does not allow.
    pub async fn refused(&self, gateway: &Gateway, message: &Message) -> Option<Response> {
        let (access, identity) = (gateway.0.access.as_ref()?, self.arrival.identity()?);
        let mut needs = Needs::default();
        needs.add(gateway, self, message).await;
        let refusal = needs.check(access, identity).err()?;
        let id = if let Message::Request { id, .. } = message { Some(id) } else { None };
        Some(refuse(gateway, access, self.refused_of(id, &needs), &refusal))
    }

    /// The same for a batch, which is refused as a whole: it has one status for all.
    pub async fn refused_batch(&self, gateway: &Gateway, text: &[u8]) -> Option<Response> {
        let (access, identity) = (gateway.0.access.as_ref()?, self.arrival.identity()?);
        let mut needs = Needs::default();
        for message in parse_batch(text).ok()?.into_iter().flatten() {
            needs.add(gateway, self, &message).await;
        }
        let refusal = needs.check(access, identity).err()?;
        Some(refuse(gateway, access, self.refused_of(None, &needs), &refusal))
    }

    fn refused_of<'a>(&'a self, id: Option<&'a Id>, needs: &'a Needs) -> Refused<'a> {
        let [method, tool] = [&needs.methods, &needs.tools].map(|names| names.first().map(String::as_str));
        Refused { peer: self.arrival.peer, owner: Some(self.owner.as_str()), id, method, tool }
    }
}

/// Whether a subscription is to tasks.
fn names_tasks(params: Option<&Payload>) -> bool {
    let listen = Params::parse(params).and_then(|params| params.listen());
    listen.is_ok_and(|listen| listen.task_ids.is_some())
}

/// What is asked for, as far as rights are about it.
#[derive(Default)]
struct Needs {
    methods: Vec<String>,
    tools: Vec<String>,
}

impl Needs {
    async fn add(&mut self, gateway: &Gateway, sender: &Sender, message: &Message) {
        let (name, params) = match message {
            Message::Request { method, params, .. } | Message::Notification { method, params } => {
                (method, params)
            }
            Message::Response { .. } | Message::Error { .. } => return,
        };
        self.methods.push(name.clone());
        if name == method::LISTEN && names_tasks(params.as_ref()) {
            // It tells of each what this tells.
            self.methods.push(method::TASKS_GET.to_owned());
        }
        if name == method::TOOLS_CALL {
            self.add_tool(gateway, sender, params.as_ref()).await;
        }
    }

    /// A tool has the name by which it is called and its server's own, and is what either says. Which of them is shown changes when
    /// another server has a tool of the same name.
    async fn add_tool(&mut self, gateway: &Gateway, sender: &Sender, params: Option<&Payload>) {
        let Ok(params) = Params::parse(params) else { return };
        let Ok(called) = params.name() else { return };
        // These do what task verbs do.
        self.methods.extend(method_of_companion(&called).map(str::to_owned));
        let is_any = gateway.0.access.as_ref().is_some_and(|access| !access.rights().tools.is_empty());
        let (owner, identity) = (&sender.owner, sender.arrival.identity());
        if is_any && let Ok(target) = gateway.look_for_tool(owner, identity, &called).await {
            self.tools.extend(target.tool.map(|tool| tool.name.clone()));
        }
        self.tools.push(called.into_owned());
    }

    fn check(&self, access: &Access, identity: &Identity) -> Result<(), Refusal> {
        let [methods, tools] = [&self.methods, &self.tools].map(|names| names.iter().map(String::as_str));
        access.rights().check(identity, methods, tools)
    }
}

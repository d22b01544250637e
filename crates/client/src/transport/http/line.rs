//! Sending one HTTP request: with credentials, again where that is safe, and with words for what goes wrong.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION, RETRY_AFTER};
use reqwest::{Method, Response, StatusCode, Url};
use taskgate_credentials::secret_header;
use taskgate_wire::{Id, Message};
use tokio::sync::mpsc;

use super::failure::{FailureKind, RequestFailure};
use super::headers::{self, SESSION_ID, ToolHeaders};
use super::server::{Auth, Clients, HttpServer};
use crate::transport::{CloseCause, CloseReason, Inbound};

/// How often a request is sent to another place of the same server, as it says.
const MOST_MOVES: usize = 5;
/// How often a request is put off because the server has too many of them.
const MOST_WAITS: usize = 3;
/// The longest that a request is put off. A server that wants more hears nothing, and the caller hears how long.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// Whether a request that may have arrived can be sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeat {
    /// It changes nothing, or the same as the first time.
    Safe,
    /// It may be work, which nobody wants done twice.
    Never,
}

/// One connection to a server, in the sense of a link: what its requests have in common.
pub(super) struct Line {
    clients: Clients,
    pub(super) server: HttpServer,
    /// Where the endpoint is by now: a server may have moved it.
    url: Mutex<Url>,
    inbound: mpsc::Sender<Inbound>,
    /// The session up to 2025-11-25; empty before and without it.
    session: Arc<Mutex<Opened>>,
    pub(super) tools: Mutex<ToolHeaders>,
    is_stale: AtomicBool,
}

/// What is known of a session.
#[derive(Clone, Default)]
pub(super) struct Opened {
    pub(super) id: Option<HeaderValue>,
    pub(super) version: Option<String>,
    /// For how many things the session must go on when the link ends.
    pub(super) holds: usize,
    pub(super) is_lost: bool,
}

impl Line {
    pub(super) fn new(
        clients: Clients,
        server: HttpServer,
        session: Arc<Mutex<Opened>>,
        inbound: mpsc::Sender<Inbound>,
    ) -> Self {
        let url = Mutex::new(server.url.as_url().clone());
        Line {
            clients,
            server,
            url,
            inbound,
            session,
            tools: Mutex::default(),
            is_stale: AtomicBool::new(false),
        }
    }

    /// How the server is called in messages.
    pub(super) fn name(&self) -> String {
        self.server.url.to_string()
    }

    /// Notes the session that `initialize` has opened.
    pub(super) fn opened(&self, id: Option<HeaderValue>, version: Option<String>) {
        *self.session.lock() = Opened { id, version, ..Opened::default() };
    }

    /// Whether there is a session that the server has given a name.
    pub(super) fn has_session(&self) -> bool {
        let session = self.session.lock();
        session.id.is_some() && !session.is_lost
    }

    /// The headers of whatever belongs to the session.
    pub(super) fn session_headers(&self) -> HeaderMap {
        let Opened { id, version, .. } = self.session.lock().clone();
        let mut all = HeaderMap::new();
        all.extend(id.map(|id| (SESSION_ID, id)));
        if let Some(version) = version {
            headers::version(&mut all, &version);
        }
        all
    }

    /// Passes on what has arrived, with the request it came by.
    pub(super) async fn arrived(&self, message: Message, origin: Option<&Id>) {
        // Nobody may be there to hear it any more.
        let _ = self.inbound.send(Inbound::Message { message, origin: origin.cloned() }).await;
    }

    /// Passes on that a request has no answer, and that new ones belong on another connection, where that follows.
    pub(super) async fn failed(&self, id: Id, failure: RequestFailure) {
        self.concluded(&failure).await;
        let _ = self.inbound.send(Inbound::Failed { id, failure }).await;
    }

    /// What a failure means for requests to come.
    pub(super) async fn concluded(&self, failure: &RequestFailure) {
        let cause = match failure.kind {
            FailureKind::Unreachable => CloseCause::Failed(failure.what.clone()),
            FailureKind::SessionLost => {
                self.session.lock().is_lost = true;
                CloseCause::SessionLost(failure.what.clone())
            }
            FailureKind::Refused | FailureKind::Interrupted | FailureKind::Malformed => return,
        };
        // Once is enough, and the reader of the link need not hear it from every request.
        if !self.is_stale.swap(true, Ordering::Relaxed) {
            let _ = self.inbound.send(Inbound::Stale(CloseReason::new(cause))).await;
        }
    }

    /// The failure that says that the session is gone.
    pub(super) fn session_lost(&self) -> RequestFailure {
        let what =
            format!("{} does not know the session any more; it has probably been started anew", self.name());
        RequestFailure::new(FailureKind::SessionLost, what)
    }

    /// Sends a message.
    pub(super) async fn post(
        &self,
        body: String,
        own: HeaderMap,
        repeat: Repeat,
    ) -> Result<Response, RequestFailure> {
        let mut headers = own;
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        self.send(Method::POST, headers, Some(body), repeat).await
    }

    /// Asks for a stream.
    pub(super) async fn get(&self, own: HeaderMap) -> Result<Response, RequestFailure> {
        let mut headers = own;
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        self.send(Method::GET, headers, None, Repeat::Safe).await
    }

    /// Ends the session, if there is one and nothing goes on in it.
    pub(super) async fn delete(&self) {
        if self.has_session() && self.session.lock().holds == 0 {
            let headers = self.session_headers();
            if let Err(failure) = self.send(Method::DELETE, headers, None, Repeat::Safe).await {
                tracing::debug!(%failure, "the session was not ended");
            }
        }
    }

    /// Sends a request. It is sent again after answers that say that nothing was done: the token is not accepted, the endpoint
    /// is elsewhere, there are too many requests. One that can safely be repeated is sent again as well, once, if its
    /// connection was lost before the answer began.
    async fn send(
        &self,
        method: Method,
        headers: HeaderMap,
        body: Option<String>,
        repeat: Repeat,
    ) -> Result<Response, RequestFailure> {
        let mut client = if repeat == Repeat::Safe { &self.clients.kept } else { &self.clients.fresh };
        let mut is_repeated = repeat == Repeat::Never;
        let mut refused: Option<String> = None;
        let mut is_renewed = false;
        let (mut moves, mut waits) = (0, 0);
        loop {
            let (credentials, token) = self.credentials(refused.as_deref()).await?;
            let url = self.url.lock().clone();
            let mut request = client.request(method.clone(), url.clone()).headers(credentials);
            request = request.headers(headers.clone());
            if let Some(body) = &body {
                request = request.body(body.clone());
            }
            let response = match request.send().await {
                Err(error) if !is_repeated && !error.is_connect() => {
                    (is_repeated, client) = (true, &self.clients.fresh);
                    continue;
                }
                sent => sent.map_err(|error| RequestFailure::sending(&self.name(), error))?,
            };
            match response.status() {
                StatusCode::UNAUTHORIZED if !is_renewed && self.has_another(token.as_deref()) => {
                    if let Auth::OAuth(tokens) = &self.server.auth {
                        tokens.challenged(response.headers());
                    }
                    (refused, is_renewed) = (token, true);
                }
                status if status.is_redirection() => {
                    let next = self.moved(&url, &response)?;
                    moves += 1;
                    if moves > MOST_MOVES {
                        let what =
                            format!("{} sends its callers around in a circle; is `url` right?", self.name());
                        return Err(RequestFailure::new(FailureKind::Refused, what));
                    }
                    *self.url.lock() = next;
                }
                status @ StatusCode::TOO_MANY_REQUESTS => {
                    let wait = retry_after(&response);
                    waits += 1;
                    match wait.filter(|wait| waits <= MOST_WAITS && *wait <= LONGEST_WAIT) {
                        Some(wait) => tokio::time::sleep(wait).await,
                        None => {
                            let when = wait
                                .map(|wait| format!("try again in {} s", wait.as_secs()))
                                .unwrap_or_default();
                            return Err(RequestFailure::status(&self.name(), status, &when));
                        }
                    }
                }
                _ => return Ok(response),
            }
        }
    }

    /// The headers that show who is calling, and the token among them.
    async fn credentials(
        &self,
        refused: Option<&str>,
    ) -> Result<(HeaderMap, Option<String>), RequestFailure> {
        let wrong = |what: String| {
            let what = format!("no request to {} can be made: {what}", self.name());
            RequestFailure::new(FailureKind::Refused, what)
        };
        let mut all = HeaderMap::new();
        for (name, value) in &self.server.headers {
            let value = value.header("").map_err(|why| wrong(format!("the header {name}: {why}")))?;
            all.insert(name.clone(), value);
        }
        let token = match &self.server.auth {
            Auth::None => None,
            Auth::Bearer(secret) => {
                Some(secret.read().map_err(|why| wrong(format!("the bearer token: {why}")))?)
            }
            Auth::OAuth(tokens) => tokens.token(refused).await.map_err(wrong)?,
        };
        if let Some(token) = &token {
            let value = secret_header(&format!("Bearer {token}"))
                .map_err(|why| wrong(format!("the bearer token: {why}")))?;
            all.insert(AUTHORIZATION, value);
        }
        Ok((all, token))
    }

    /// Whether a token that was not accepted can be replaced by another one.
    fn has_another(&self, refused: Option<&str>) -> bool {
        match &self.server.auth {
            Auth::None => false,
            // Somebody may have renewed the file since it was read.
            Auth::Bearer(secret) => secret.read().is_ok_and(|now| Some(now.as_str()) != refused),
            Auth::OAuth(_) => true,
        }
    }

    /// Where a redirect leads to, if a request may go there: to the same server, and as the same request.
    fn moved(&self, from: &Url, response: &Response) -> Result<Url, RequestFailure> {
        let status = response.status();
        let refused = |what: String| RequestFailure::new(FailureKind::Refused, what);
        let to = response.headers().get(LOCATION).and_then(|to| from.join(to.to_str().ok()?).ok());
        let Some(to) = to else { return Err(RequestFailure::status(&self.name(), status, "")) };
        let origin = to.origin().ascii_serialization();
        if to.origin() != from.origin() {
            let what = format!(
                "{} sends its callers to {origin}, which is another server and not followed; if you trust it, put that address into `url`",
                self.name()
            );
            return Err(refused(what));
        }
        if !matches!(status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT) {
            let what = format!(
                "{} answered with the status {status}, which turns a message into another request; is `url` the server's MCP endpoint?",
                self.name()
            );
            return Err(refused(what));
        }
        Ok(to)
    }
}

/// How long to wait before the next try, as a number of seconds. The other form, a date, is not used by such servers.
fn retry_after(response: &Response) -> Option<Duration> {
    let text = response.headers().get(RETRY_AFTER)?.to_str().ok()?;
    text.trim().parse().ok().map(Duration::from_secs)
}

//! Taking connections: how many, and how long one may take to say what it wants.
//!
//! A connection costs memory and a file descriptor as long as it is open, whoever holds it and whatever for. So there is a most, and one
//! that does not come to the point is closed (slow loris). How long an answer takes is another question: streams stay open for as long
//! as there is something to come.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use taskgate_access::{Certificates, Certified, Refusal};
use taskgate_wire::{ErrorCode, Message, RpcError};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::MissedTickBehavior;
use tower_service::Service;

use super::patience::Patience;
use super::tls::Tls;
use crate::bounds::Open;
use crate::policy::ConnectionSettings;

/// How long to wait for a file descriptor when there is none.
const NONE_LEFT: Duration = Duration::from_millis(500);
/// How often to look for a new certificate.
const RENEW_EVERY: Duration = Duration::from_secs(30);
/// How long whoever is refused is given to read why.
const REFUSING: Duration = Duration::from_secs(1);
/// How many may be refused at a time. Others are closed without a word.
const MOST_REFUSED: usize = 64;

/// What is noted of a connection for its requests. It costs a little at each of them.
pub struct Noted {
    /// Where it comes from ([`ConnectInfo`]).
    pub peer: bool,
    /// What the certificate says that its client has shown ([`ShownCertificate`]).
    pub certificates: Option<Certificates>,
}

/// What a client has shown in the handshake of the connection that a request came on.
pub type ShownCertificate = Arc<Result<Certified, Refusal>>;

/// Takes connections and serves them.
pub struct Acceptor {
    http: http1::Builder,
    router: Router,
    settings: ConnectionSettings,
    tls: Option<Tls>,
    noted: Noted,
    open: Open,
    places: Arc<Semaphore>,
    refusing: Arc<Semaphore>,
}

impl Acceptor {
    /// `open` shows how many connections there are.
    pub fn new(
        router: Router,
        settings: ConnectionSettings,
        tls: Option<Tls>,
        noted: Noted,
        open: Open,
    ) -> Self {
        let mut http = http1::Builder::new();
        http.timer(Patience).header_read_timeout(settings.head_timeout).max_header_size(settings.max_head);
        let (places, refusing) = (Semaphore::new(settings.max), Semaphore::new(MOST_REFUSED));
        let (places, refusing) = (places.into(), refusing.into());
        Acceptor { http, router, settings, tls, noted, open, places, refusing }
    }

    /// Serves until `stopped`, then lets what is in the middle of something end, and returns when all connections are closed.
    pub async fn serve(self, listener: TcpListener, mut stopped: watch::Receiver<bool>) {
        let (places, most) = (self.places.clone(), self.settings.max);
        let acceptor = Arc::new(self);
        let until = stopped.clone();
        let mut renewals = tokio::time::interval(RENEW_EVERY);
        renewals.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let stream = tokio::select! {
                () = until_stopped(&mut stopped) => break,
                _ = renewals.tick(), if acceptor.tls.is_some() => {
                    acceptor.tls.iter().for_each(Tls::renew);
                    continue;
                }
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => stream,
                    Err(error) => {
                        if !is_of_one_connection(&error) {
                            tracing::warn!(%error, "no connection can be taken");
                            tokio::time::sleep(NONE_LEFT).await;
                        }
                        continue;
                    }
                },
            };
            acceptor.clone().take(stream, until.clone());
        }
        drop(listener);
        // When every place is free again, every connection is closed.
        let all = u32::try_from(most).unwrap_or(u32::MAX);
        let _ = places.acquire_many(all).await;
    }

    fn take(self: Arc<Self>, stream: TcpStream, stopped: watch::Receiver<bool>) {
        // Small answers must not wait for a delayed acknowledgement.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY");
        }
        match self.places.clone().try_acquire_owned() {
            Ok(place) => {
                tokio::spawn(async move { self.connection(stream, stopped, place).await });
            }
            Err(_) => self.refuse(stream),
        }
    }

    async fn connection(
        self: Arc<Self>,
        stream: TcpStream,
        stopped: watch::Receiver<bool>,
        _place: OwnedSemaphorePermit,
    ) {
        let _open = Counted::new(self.open.clone());
        let peer = stream.peer_addr().ok().filter(|_| self.noted.peer);
        let Some(tls) = &self.tls else {
            return self.speak(stream, peer, None, stopped).await;
        };
        match tokio::time::timeout(self.settings.head_timeout, tls.accept(stream)).await {
            Ok(Ok(stream)) => {
                let shown = self.noted.certificates.as_ref().zip(Tls::shown(&stream));
                let shown = shown.map(|(certificates, shown)| Arc::new(certificates.read(shown)));
                self.speak(stream, peer, shown, stopped).await;
            }
            Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
            Err(_) => tracing::debug!("a TLS handshake took longer than head_timeout"),
        }
    }

    async fn speak<S>(
        &self,
        stream: S,
        peer: Option<SocketAddr>,
        shown: Option<ShownCertificate>,
        mut stopped: watch::Receiver<bool>,
    ) where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let router = self.router.clone();
        let service = service_fn(move |mut request: Request<Incoming>| {
            if let Some(peer) = peer {
                request.extensions_mut().insert(ConnectInfo(peer));
            }
            if let Some(shown) = &shown {
                request.extensions_mut().insert(shown.clone());
            }
            router.clone().call(request)
        });
        let connection = self.http.serve_connection(TokioIo::new(stream), service);
        tokio::pin!(connection);
        let mut looks = tokio::time::interval(Patience::look_every(self.settings.head_timeout));
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let ended = loop {
            tokio::select! {
                biased;
                ended = connection.as_mut() => break Some(ended),
                () = until_stopped(&mut stopped) => break None,
                // Then the connection looks at the time.
                _ = looks.tick() => {}
            }
        };
        let ended = match ended {
            Some(ended) => ended,
            None => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection ended");
        }
    }

    /// Says that there is no place, in as few bytes as possible, without having read what was asked.
    fn refuse(&self, mut stream: TcpStream) {
        let Ok(refusing) = self.refusing.clone().try_acquire_owned() else { return };
        // It would have to be encrypted, and that is the expensive part.
        if self.tls.is_some() {
            return;
        }
        let most = self.settings.max;
        tokio::spawn(async move {
            let _refusing = refusing;
            let message =
                format!("The server has connections.max ({most}) connections; try again in a second");
            let body = Message::error(None, &RpcError::new(ErrorCode::InternalError, message)).to_text();
            let answer = format!(
                "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\n\
                 content-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
            let say = async {
                stream.write_all(answer.as_bytes()).await?;
                stream.shutdown().await?;
                // Bytes that nobody has read would make the system cut off what was just written.
                tokio::io::copy(&mut stream, &mut tokio::io::sink()).await
            };
            let _ = tokio::time::timeout(REFUSING, say).await;
        });
    }
}

/// A connection as long as it is open.
struct Counted(Open);

impl Counted {
    fn new(open: Open) -> Counted {
        open.inc();
        Counted(open)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}

async fn until_stopped(stopped: &mut watch::Receiver<bool>) {
    let _ = stopped.wait_for(|stop| *stop).await;
}

/// Whether the error is about the connection that would have been taken, and the next one may be fine.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
    )
}

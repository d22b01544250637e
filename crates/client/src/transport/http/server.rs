use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::HeaderName;
use reqwest::{Client, Url, redirect, retry};

use taskgate_credentials::{OAuth, Secret};
use taskgate_reach::Reach;

use super::oauth::TokenServer;
use crate::transport::stdio::StdioCommand;

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(10);
/// Connections that nobody uses are closed before the common servers close them.
const IDLE: Duration = Duration::from_secs(3);
/// How many of them there may be.
const IDLE_CONNECTIONS: usize = 16;
/// How a peer that has gone without a word is noticed: after this silence it is asked for a sign of life, at this
/// interval and this often. A healthy server may be silent for hours.
const ALIVE: (Duration, Duration, u32) = (Duration::from_secs(20), Duration::from_secs(10), 4);

/// A server that is reached by HTTP. Clones share its tokens.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpServer {
    /// The MCP endpoint.
    pub url: ServerUrl,
    /// Headers of every request.
    pub headers: Vec<(HeaderName, Secret)>,
    /// How to show who is calling.
    pub auth: Auth,
    /// The longest message the server may send, in bytes.
    pub message_limit: usize,
    /// Whether credentials may go over a connection that others can read.
    pub plain_http: bool,
}

/// How a server is shown who is calling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Auth {
    /// Not at all, or by `headers`.
    None,
    /// By a token that somebody else provides.
    Bearer(Secret),
    /// By tokens that are fetched as they are needed.
    OAuth(Arc<TokenServer>),
}

impl HttpServer {
    /// A server without credentials.
    pub fn new(url: ServerUrl) -> Self {
        HttpServer {
            url,
            headers: Vec::new(),
            auth: Auth::None,
            message_limit: StdioCommand::LINE_LIMIT,
            plain_http: false,
        }
    }

    /// With tokens of this token endpoint, by these rules.
    pub fn oauth(mut self, token_url: ServerUrl, oauth: OAuth) -> Self {
        self.auth = Auth::OAuth(Arc::new(TokenServer::new(token_url, oauth)));
        self
    }

    /// With tokens of the authorization server that the server names, if it is this issuer or has the server's own origin.
    pub fn oauth_found(mut self, issuer: Option<String>, oauth: OAuth) -> Self {
        self.auth = Auth::OAuth(Arc::new(TokenServer::found_by(self.url.clone(), issuer, oauth)));
        self
    }
}

impl fmt::Debug for HttpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("HttpServer")
            .field("url", &self.url)
            .field("headers", &names)
            .field("auth", &self.auth)
            .finish_non_exhaustive()
    }
}

/// An `http` or `https` URL. Shown, it is without its path and query, where keys are often put.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerUrl(Url);

impl ServerUrl {
    /// Reads a URL.
    ///
    /// # Errors
    ///
    /// What is wrong with it, as the end of a sentence that begins with it.
    pub fn parse(text: &str) -> Result<ServerUrl, String> {
        let mut url = Url::parse(text).map_err(|error| format!("is no URL: {error}"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err("is neither http:// nor https://".to_owned());
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("has a user name or password in it; put them into `headers`".to_owned());
        }
        url.set_fragment(None);
        Ok(ServerUrl(url))
    }

    /// The whole URL.
    pub fn as_url(&self) -> &Url {
        &self.0
    }

    /// The URL without its query, which is what tokens are asked for (RFC 8707).
    pub fn resource(&self) -> String {
        let mut url = self.0.clone();
        url.set_query(None);
        url.to_string()
    }

    /// Whether what is sent there can be read by others on the way: it is not encrypted and leaves this machine.
    pub fn is_exposed(&self) -> bool {
        self.0.scheme() == "http" && !self.is_loopback()
    }

    /// Whether it is on this machine.
    pub fn is_loopback(&self) -> bool {
        let Some(host) = self.0.host_str() else { return false };
        let host = host.trim_matches(['[', ']']);
        host == "localhost"
            || host.ends_with(".localhost")
            || host.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback())
    }
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.origin().ascii_serialization())
    }
}

impl fmt::Debug for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServerUrl({self}/…)")
    }
}

/// What sends requests to a URL and others of its origin. It follows nothing and sends nothing twice by itself.
pub(super) struct Clients {
    /// Connections are kept and used again. The other side may just be closing the one that is taken, and then nobody knows
    /// whether a request has arrived: only for what can be sent again.
    pub(super) kept: Client,
    /// Every request has a connection of its own.
    pub(super) fresh: Client,
}

impl Clients {
    pub(super) fn new(url: &ServerUrl) -> Result<Clients, String> {
        let tls = tls(url.as_url().scheme() == "https")?;
        Ok(Clients {
            kept: client(url, tls.clone(), IDLE_CONNECTIONS, None)?,
            fresh: client(url, tls, 0, None)?,
        })
    }

    /// What sends requests to a URL that others have written, within reach.
    pub(super) fn within(reach: &Reach, url: &ServerUrl) -> Result<Client, String> {
        client(url, tls(url.as_url().scheme() == "https")?, 0, Some(reach))
    }
}

/// A client that keeps up to `idle` connections that nobody uses.
fn client(
    url: &ServerUrl,
    tls: rustls::ClientConfig,
    idle: usize,
    reach: Option<&Reach>,
) -> Result<Client, String> {
    let builder = Client::builder()
        .user_agent(concat!("taskgate/", env!("CARGO_PKG_VERSION")))
        .redirect(redirect::Policy::none())
        .retry(retry::never())
        .referer(false)
        .connect_timeout(CONNECT)
        .pool_idle_timeout(IDLE)
        .pool_max_idle_per_host(idle)
        .tcp_keepalive(ALIVE.0)
        .tcp_keepalive_interval(ALIVE.1)
        .tcp_keepalive_retries(ALIVE.2)
        .tls_backend_preconfigured(tls);
    // A proxy stands between this machine and others, not between its programs.
    let builder = if url.is_loopback() { builder.no_proxy() } else { builder };
    let builder = match reach {
        Some(reach) => reach.guard(builder),
        None => builder,
    };
    builder.build().map_err(super::failure::root_of)
}

/// The certificates of this machine, and no others. Reading them is spared where nothing is encrypted.
fn tls(is_needed: bool) -> Result<rustls::ClientConfig, String> {
    let mut roots = rustls::RootCertStore::empty();
    if is_needed {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            return Err("this machine has no certificates to trust; install ca-certificates".to_owned());
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

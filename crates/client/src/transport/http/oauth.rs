//! Where the access tokens for a server are asked for.

use std::time::Duration;

use parking_lot::Mutex;
use reqwest::header::HeaderMap;
use reqwest::{Client, RequestBuilder, StatusCode};
use taskgate_credentials::{Grant, OAuth, Tokens, refusal};
use taskgate_reach::Reach;

use super::challenge::Challenge;
use super::discovery::Discovery;
use super::failure::root_of;
use super::server::{Clients, ServerUrl};

/// How long a token server may take for an answer.
const ANSWER: Duration = Duration::from_secs(20);
/// The longest answer of a token server that is read.
const LONGEST: usize = 256 << 10;

/// Whoever gives out the tokens for one server, and those tokens.
#[derive(Debug)]
pub struct TokenServer {
    place: Place,
    tokens: Tokens,
    client: Mutex<Option<Client>>,
}

/// Where tokens are asked for.
#[derive(Debug, PartialEq)]
enum Place {
    /// At this token endpoint.
    Known(ServerUrl),
    /// Where the server says.
    Found(Box<Discovery>),
}

/// What has been got so far does not count.
impl PartialEq for TokenServer {
    fn eq(&self, other: &TokenServer) -> bool {
        (&self.place, &self.tokens) == (&other.place, &other.tokens)
    }
}

impl Eq for TokenServer {}

impl TokenServer {
    /// The token endpoint at this URL.
    pub fn new(url: ServerUrl, oauth: OAuth) -> Self {
        TokenServer { place: Place::Known(url), tokens: Tokens::new(oauth), client: Mutex::default() }
    }

    /// Whoever `server` says, once it wants a token. The credentials go to this issuer, or else to the server's own origin, and
    /// nowhere else.
    pub fn found_by(server: ServerUrl, issuer: Option<String>, oauth: OAuth) -> Self {
        let place = Place::Found(Box::new(Discovery::new(server, issuer)));
        TokenServer { place, tokens: Tokens::new(oauth), client: Mutex::default() }
    }

    /// What the server says may lead to what is within this reach, and to addresses that everybody can reach.
    pub fn within(mut self, reach: Reach) -> Self {
        if let Place::Found(discovery) = &mut self.place {
            discovery.reach = reach;
        }
        self
    }

    /// The token endpoint, if it is configured.
    pub fn url(&self) -> Option<&ServerUrl> {
        match &self.place {
            Place::Known(url) => Some(url),
            Place::Found(_) => None,
        }
    }

    /// Whom the credentials are for, if that is configured.
    pub fn issuer(&self) -> Option<&str> {
        match &self.place {
            Place::Known(_) => None,
            Place::Found(discovery) => discovery.issuer.as_deref(),
        }
    }

    /// How tokens are asked for.
    pub fn oauth(&self) -> &OAuth {
        self.tokens.oauth()
    }

    /// The server does not accept a request without a token, or with the one it had.
    pub(super) fn challenged(&self, headers: &HeaderMap) {
        if let Place::Found(discovery) = &self.place {
            discovery.challenged(Challenge::of(headers));
        }
    }

    /// A token that is good now, as far as is known, and not the one that the server has `refused`. `None` as long as nobody has
    /// said that the server wants one.
    pub(super) async fn token(&self, refused: Option<&str>) -> Result<Option<String>, String> {
        if let Place::Found(discovery) = &self.place
            && !discovery.is_needed()
        {
            return Ok(None);
        }
        let token = self.tokens.token(refused, async |grant| self.ask(grant).await).await;
        token.map(Some).map_err(|why| match &self.place {
            Place::Known(url) => format!("no access token from {url}: {why}"),
            Place::Found(_) => format!("no access token: {why}"),
        })
    }

    async fn ask(&self, grant: Grant) -> Result<Vec<u8>, String> {
        match &self.place {
            Place::Known(url) => post(&self.client(url)?, url, grant).await,
            Place::Found(discovery) => {
                let found = discovery.find().await?;
                let scope = found.scope.as_deref().filter(|_| !grant.renews());
                let grant = grant.unless_said("scope", scope);
                let grant = grant.unless_said("resource", Some(&found.resource));
                let asked = post(&found.client, &found.token_url, grant).await;
                asked.map_err(|why| {
                    discovery.forget();
                    format!("{}: {why}", found.token_url)
                })
            }
        }
    }

    fn client(&self, url: &ServerUrl) -> Result<Client, String> {
        let mut client = self.client.lock();
        match &*client {
            Some(client) => Ok(client.clone()),
            None => Ok(client.insert(Clients::new(url)?.fresh).clone()),
        }
    }
}

/// Asks a token endpoint.
async fn post(client: &Client, url: &ServerUrl, grant: Grant) -> Result<Vec<u8>, String> {
    let request = grant.request()?;
    let sent = client.post(url.as_url().clone()).headers(request.headers).body(request.body);
    let (status, body) = exchange(sent).await?;
    if status.is_success() { Ok(body) } else { Err(refusal(status, &body)) }
}

/// Sends a request to somebody whose answers are short and come soon.
pub(super) async fn exchange(request: RequestBuilder) -> Result<(StatusCode, Vec<u8>), String> {
    let mut response = request.timeout(ANSWER).send().await.map_err(root_of)?;
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(root_of)? {
        body.extend_from_slice(&chunk);
        if body.len() > LONGEST {
            return Err("its answer is too long".to_owned());
        }
    }
    Ok((response.status(), body))
}

//! Where the access tokens for a server are asked for.

use std::time::Duration;

use parking_lot::Mutex;
use reqwest::Client;
use taskgate_credentials::{Grant, OAuth, Tokens, refusal};

use super::failure::root_of;
use super::server::{Clients, ServerUrl};

/// How long the token server may take.
const ANSWER: Duration = Duration::from_secs(20);
/// The longest answer of a token server that is read.
const LONGEST: usize = 256 << 10;

/// A token endpoint, and the tokens of one server that are got there.
#[derive(Debug)]
pub struct TokenServer {
    url: ServerUrl,
    tokens: Tokens,
    client: Mutex<Option<Client>>,
}

/// What has been got so far does not count.
impl PartialEq for TokenServer {
    fn eq(&self, other: &TokenServer) -> bool {
        (&self.url, &self.tokens) == (&other.url, &other.tokens)
    }
}

impl Eq for TokenServer {}

impl TokenServer {
    /// The token endpoint at this URL.
    pub fn new(url: ServerUrl, oauth: OAuth) -> Self {
        TokenServer { url, tokens: Tokens::new(oauth), client: Mutex::default() }
    }

    /// Where it is.
    pub fn url(&self) -> &ServerUrl {
        &self.url
    }

    /// How tokens are asked for.
    pub fn oauth(&self) -> &OAuth {
        self.tokens.oauth()
    }

    /// A token that is good now, as far as is known, and not the one that the server has `refused`.
    pub(super) async fn token(&self, refused: Option<&str>) -> Result<String, String> {
        let token = self.tokens.token(refused, async |grant| self.ask(grant).await).await;
        token.map_err(|why| format!("no access token from {}: {why}", self.url))
    }

    async fn ask(&self, grant: Grant) -> Result<Vec<u8>, String> {
        let request = grant.request()?;
        let sent = self.client()?.post(self.url.as_url().clone()).headers(request.headers);
        let mut response = sent.timeout(ANSWER).body(request.body).send().await.map_err(root_of)?;
        let status = response.status();
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(root_of)? {
            body.extend_from_slice(&chunk);
            if body.len() > LONGEST {
                return Err("its answer is too long".to_owned());
            }
        }
        if status.is_success() { Ok(body) } else { Err(refusal(status, &body)) }
    }

    fn client(&self) -> Result<Client, String> {
        let mut client = self.client.lock();
        match &*client {
            Some(client) => Ok(client.clone()),
            None => Ok(client.insert(Clients::new(&self.url)?.fresh).clone()),
        }
    }
}

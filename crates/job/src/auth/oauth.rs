//! OAuth 2.0, client credentials (RFC 6749, section 4.4).

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Method, Url};

use super::{put, token};
use crate::engine::percent;
use crate::failure::Failure;
use crate::http::{Http, Prepared};
use crate::secret::Secret;

const TIMEOUT: Duration = Duration::from_secs(30);

/// A token from an authorization server.
#[derive(Debug, Clone, PartialEq)]
pub struct OAuth {
    /// Where tokens are given out.
    pub token_url: Url,
    /// Who asks.
    pub client_id: String,
    /// Proves it.
    pub client_secret: Secret,
    /// What the token is to be good for.
    pub scope: Option<String>,
    /// For whom it is, which some servers want to know.
    pub audience: Option<String>,
    /// Where the secret goes.
    pub client_auth: ClientAuth,
    kept: token::Kept,
}

/// Where a client's secret goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClientAuth {
    /// Into the header, as every server must understand it.
    #[default]
    Basic,
    /// Into the body.
    Body,
}

impl OAuth {
    /// Tokens of this server for this client.
    pub fn new(token_url: Url, client_id: String, client_secret: Secret) -> OAuth {
        let (scope, audience) = (None, None);
        let (client_auth, kept) = (ClientAuth::default(), token::Kept::default());
        OAuth { token_url, client_id, client_secret, scope, audience, client_auth, kept }
    }

    pub(super) async fn token(&self, http: &Http, request: &'static str) -> Result<String, Failure> {
        self.kept.or_fetch(self.fetch(http, request)).await
    }

    pub(super) async fn forget(&self) -> bool {
        self.kept.forget().await
    }

    async fn fetch(&self, http: &Http, request: &'static str) -> Result<token::Fetched, Failure> {
        let secret = self.client_secret.read().map_err(|why| Failure::Unmade { request, why })?;
        let mut fields = vec![("grant_type", "client_credentials")];
        fields.extend(self.scope.as_deref().map(|scope| ("scope", scope)));
        fields.extend(self.audience.as_deref().map(|audience| ("audience", audience)));
        let mut prepared = Prepared {
            name: "token",
            method: Method::POST,
            url: self.token_url.clone(),
            headers: HeaderMap::new(),
            body: Vec::new(),
            timeout: TIMEOUT,
        };
        match self.client_auth {
            ClientAuth::Basic => {
                // Both are form-encoded before they are joined (section 2.3.1).
                let both = STANDARD.encode(format!("{}:{}", percent(&self.client_id), percent(&secret)));
                put(&mut prepared, AUTHORIZATION, &format!("Basic {both}"))?;
            }
            ClientAuth::Body => {
                fields.extend([("client_id", self.client_id.as_str()), ("client_secret", &secret)]);
            }
        }
        prepared.headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        prepared.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        prepared.body = form(&fields).into_bytes();
        token::fetch(http, &prepared, request).await
    }
}

/// A form with these fields.
pub fn form(fields: &[(&str, &str)]) -> String {
    let fields: Vec<_> = fields.iter().map(|(name, value)| format!("{name}={}", percent(value))).collect();
    fields.join("&")
}

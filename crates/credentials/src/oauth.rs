//! Access tokens: asked for when they are needed, in the client's own name or by renewing somebody's (RFC 6749, 4.4 and 6).
//!
//! No crate is used for it. Of OAuth only two requests are needed here, each a form and its JSON answer; the crates there
//! are for the flows in which people are sent to a page, and bring much that has no use here.

use std::fmt;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue};
use parking_lot::Mutex;

use crate::kept::{Granted, Kept};
use crate::secret::{Secret, secret_header};

/// How to ask for tokens.
#[derive(Clone, PartialEq, Eq)]
pub struct OAuth {
    /// Who we are.
    pub client_id: String,
    /// How we show it; none for a public client.
    pub client_secret: Option<Secret>,
    /// Whether the secret goes into the form; else into the `Authorization` header.
    pub secret_in_form: bool,
    /// What is renewed. Without it tokens are asked for in the client's own name (client credentials).
    pub refresh_token: Option<Secret>,
    /// What the token shall allow, separated by blanks.
    pub scope: Option<String>,
    /// Which server the token is for (RFC 8707). An empty text keeps it from being said.
    pub resource: Option<String>,
    /// For whom the token is, in the words of servers that are older than that.
    pub audience: Option<String>,
}

/// Tokens that are got in the same way.
pub struct Tokens {
    oauth: OAuth,
    kept: Kept,
    /// A refresh token that has taken the place of the configured one, and could not be written there.
    renewed: Mutex<Option<String>>,
}

/// What a token is asked for with.
pub struct Grant {
    form: Vec<(&'static str, String)>,
    /// What goes into the header.
    secret: Option<String>,
    client_id: String,
}

/// The request that a token endpoint gets: a form, sent with POST.
pub struct TokenRequest {
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: String,
}

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
pub enum NoToken<E> {
    /// There is nothing to ask with, or the answer has none.
    #[error("{0}")]
    Unusable(String),
    /// The request, or its answer, did not arrive, or it was refused.
    #[error("{0}")]
    Sending(E),
}

impl OAuth {
    /// Tokens in this client's own name.
    pub fn new(client_id: impl Into<String>, client_secret: Secret) -> OAuth {
        OAuth {
            client_id: client_id.into(),
            client_secret: Some(client_secret),
            secret_in_form: false,
            refresh_token: None,
            scope: None,
            resource: None,
            audience: None,
        }
    }
}

impl Tokens {
    /// None so far.
    pub fn new(oauth: OAuth) -> Self {
        Tokens { oauth, kept: Kept::default(), renewed: Mutex::default() }
    }

    /// How they are asked for.
    pub fn oauth(&self) -> &OAuth {
        &self.oauth
    }

    /// A token that is good now, as far as is known. `refused` is one that was not accepted: it is not given out again.
    /// Several callers wait for one answer. `send` asks, and returns the body of an answer that is a success.
    ///
    /// # Errors
    ///
    /// Why there is none.
    pub async fn token<E>(
        &self,
        refused: Option<&str>,
        send: impl AsyncFnOnce(Grant) -> Result<Vec<u8>, E>,
    ) -> Result<String, NoToken<E>> {
        let fetch = async {
            let grant = self.grant().map_err(NoToken::Unusable)?;
            let body = send(grant).await.map_err(NoToken::Sending)?;
            let mut granted = Granted::read(&body).map_err(NoToken::Unusable)?;
            if let Some(next) = granted.refresh_token.take() {
                self.keep_refresh_token(next);
            }
            Ok(granted)
        };
        self.kept.or_fetch(refused, fetch).await
    }

    /// Forgets a token that is not believed any more; whether there was one.
    pub async fn forget(&self) -> bool {
        self.kept.forget().await
    }

    fn grant(&self) -> Result<Grant, String> {
        let oauth = &self.oauth;
        let secret = oauth.client_secret.as_ref().map(Secret::read).transpose()?;
        let renewed = self.renewed.lock().clone();
        let refresh = match renewed {
            Some(newer) => Some(newer),
            None => oauth.refresh_token.as_ref().map(Secret::read).transpose()?,
        };
        let kind = if refresh.is_some() { "refresh_token" } else { "client_credentials" };
        let mut form = vec![("grant_type", kind.to_owned())];
        let mut add = |name, value: Option<String>| form.extend(value.map(|value| (name, value)));
        add("refresh_token", refresh);
        add("scope", oauth.scope.clone());
        add("resource", oauth.resource.clone());
        add("audience", oauth.audience.clone());
        let (in_header, in_form): (Option<String>, _) =
            if oauth.secret_in_form { (None, secret) } else { (secret, None) };
        add("client_id", in_header.is_none().then(|| oauth.client_id.clone()));
        add("client_secret", in_form);
        Ok(Grant { form, secret: in_header, client_id: oauth.client_id.clone() })
    }

    /// A refresh token that takes the place of the one before. Where that was in a file, the new one is written there:
    /// the old one may be worthless from now on, and the next process needs it.
    fn keep_refresh_token(&self, next: String) {
        let mut renewed = self.renewed.lock();
        match &self.oauth.refresh_token {
            Some(Secret::File(path)) => match replace(path, &next) {
                Ok(()) => {
                    *renewed = None;
                    return;
                }
                Err(error) => {
                    tracing::error!(file = %path.display(), %error, "the renewed refresh token cannot be written");
                }
            },
            // A server of client credentials need give none, and whoever has none to renew needs none.
            None => return,
            Some(Secret::Text(_) | Secret::Env(_)) if renewed.is_none() => tracing::warn!(
                client = self.oauth.client_id,
                "refresh tokens are renewed and lost at the next start: keep the token in a file"
            ),
            Some(Secret::Text(_) | Secret::Env(_)) => {}
        }
        *renewed = Some(next);
    }
}

impl Grant {
    /// Whether somebody's token is renewed, whose scope was settled when it was given.
    pub fn renews(&self) -> bool {
        self.form.iter().any(|(said, _)| *said == "refresh_token")
    }

    /// Says something that nothing else is configured for.
    #[must_use]
    pub fn unless_said(mut self, name: &'static str, value: Option<&str>) -> Grant {
        if !self.form.iter().any(|(said, _)| *said == name) {
            self.form.extend(value.map(|value| (name, value.to_owned())));
        }
        self
    }

    /// The request.
    ///
    /// # Errors
    ///
    /// What cannot be sent.
    pub fn request(mut self) -> Result<TokenRequest, String> {
        self.form.retain(|(_, value)| !value.is_empty());
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        if let Some(secret) = &self.secret {
            // Both are form-encoded before they are joined (RFC 6749, 2.3.1).
            let [id, secret] = [&self.client_id, secret].map(|text| escaped(text));
            headers.insert(
                AUTHORIZATION,
                secret_header(&format!("Basic {}", STANDARD.encode(format!("{id}:{secret}"))))?,
            );
        }
        Ok(TokenRequest { headers, body: form(&self.form) })
    }
}

/// A form as it is sent.
pub fn form<V: AsRef<str>>(fields: &[(&str, V)]) -> String {
    form_urlencoded::Serializer::new(String::new()).extend_pairs(fields.iter().map(|(n, v)| (n, v))).finish()
}

/// A form that is sent in a client's own name, to ask its authorization server about something (RFC 7662, 2.1).
///
/// # Errors
///
/// What cannot be sent.
pub fn basic_form(oauth: &OAuth, fields: &[(&'static str, &str)]) -> Result<TokenRequest, String> {
    let secret = oauth.client_secret.as_ref().map(Secret::read).transpose()?;
    let form = fields.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    Grant { form, secret, client_id: oauth.client_id.clone() }.request()
}

fn escaped(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

/// Tokens are got by the same rules; what has been got so far does not count.
impl PartialEq for Tokens {
    fn eq(&self, other: &Tokens) -> bool {
        self.oauth == other.oauth
    }
}

impl Eq for Tokens {}

impl fmt::Debug for OAuth {
    /// The resource may be a URL that is a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuth")
            .field("client_id", &self.client_id)
            .field("client_secret", &self.client_secret)
            .field("refresh_token", &self.refresh_token)
            .field("scope", &self.scope)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tokens").field(&self.oauth).finish()
    }
}

/// Puts a text into the place of a file that only its owner can read, in one step.
fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let beside = Path::new(&name);
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(beside)?;
    std::io::Write::write_all(&mut file, text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(beside, path)
}

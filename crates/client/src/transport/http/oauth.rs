//! Access tokens for a server: fetched when they are needed, kept while they are good (RFC 6749, 4.4 and 6).
//!
//! No crate is used for it. Of OAuth only two requests are needed here, each a form and its JSON answer; the crates there
//! are for the flows in which people are sent to a page, and bring much that has no use here.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{Client, Url};
use serde::Deserialize;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::failure::root_of;
use super::secret::Secret;
use super::server::{Clients, ServerUrl};

/// A token is renewed this long before its end, so that it does not end on its way.
const EARLY: Duration = Duration::from_secs(30);
/// How long the token server may take.
const ANSWER: Duration = Duration::from_secs(20);
/// The longest answer of a token server that is read.
const LONGEST: usize = 256 << 10;

/// How to get tokens.
#[derive(Clone, PartialEq, Eq)]
pub struct OAuth {
    /// The token endpoint.
    pub token_url: ServerUrl,
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
    /// Which server the token is for (RFC 8707).
    pub resource: Option<String>,
}

/// The tokens of one server.
pub struct Tokens {
    oauth: OAuth,
    kept: Mutex<Kept>,
}

/// Tokens are got by the same rules; what has been got so far does not count.
impl PartialEq for Tokens {
    fn eq(&self, other: &Tokens) -> bool {
        self.oauth == other.oauth
    }
}

impl Eq for Tokens {}

#[derive(Default)]
struct Kept {
    access: Option<Access>,
    /// A refresh token that has taken the place of the configured one, and could not be written there.
    refresh: Option<String>,
    client: Option<Client>,
}

struct Access {
    token: String,
    /// When to fetch another one; `None` if it was not said when it ends.
    renew_at: Option<Instant>,
}

impl Tokens {
    /// None so far.
    pub fn new(oauth: OAuth) -> Self {
        Tokens { oauth, kept: Mutex::default() }
    }

    /// How they are got.
    pub fn oauth(&self) -> &OAuth {
        &self.oauth
    }

    /// A token that is good now, as far as is known. `refused` is one that the server did not accept: it is not given out
    /// again. Several callers wait for one answer of the token server.
    pub(super) async fn token(&self, refused: Option<&str>) -> Result<String, String> {
        let mut kept = self.kept.lock().await;
        if let Some(access) = &kept.access
            && refused != Some(access.token.as_str())
            && access.renew_at.is_none_or(|at| Instant::now() < at)
        {
            return Ok(access.token.clone());
        }
        let told = |why: String| format!("no access token from {}: {why}", self.oauth.token_url);
        let granted = self.fetch(&mut kept).await.map_err(told)?;
        let lasts = granted.lasts().map(|seconds| Duration::from_secs_f64(seconds.clamp(0.0, 1e9)));
        // Half of a very short life is better than none.
        let renew_at = lasts.map(|lasts| Instant::now() + lasts.saturating_sub(EARLY).max(lasts / 2));
        if let Some(next) = granted.refresh_token {
            self.keep_refresh_token(&mut kept, next);
        }
        kept.access = Some(Access { token: granted.access_token.clone(), renew_at });
        Ok(granted.access_token)
    }

    async fn fetch(&self, kept: &mut Kept) -> Result<Granted, String> {
        let oauth = &self.oauth;
        let secret = oauth.client_secret.as_ref().map(Secret::read).transpose()?;
        let configured = || oauth.refresh_token.as_ref().map(Secret::read).transpose();
        let refresh = match &kept.refresh {
            Some(newer) => Some(newer.clone()),
            None => configured()?,
        };
        let mut form =
            vec![("grant_type", if refresh.is_some() { "refresh_token" } else { "client_credentials" })];
        form.extend(refresh.as_deref().map(|token| ("refresh_token", token)));
        form.extend(oauth.scope.as_deref().map(|scope| ("scope", scope)));
        form.extend(oauth.resource.as_deref().map(|resource| ("resource", resource)));
        let in_header = secret.as_deref().filter(|_| !oauth.secret_in_form);
        if in_header.is_none() {
            form.push(("client_id", &oauth.client_id));
            form.extend(secret.as_deref().map(|secret| ("client_secret", secret)));
        }
        let client = match &kept.client {
            Some(client) => client.clone(),
            None => kept.client.insert(Clients::new(&oauth.token_url)?.fresh).clone(),
        };
        let mut request = client
            .post(oauth.token_url.as_url().clone())
            .header(ACCEPT, "application/json")
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .timeout(ANSWER)
            .body(encoded(&form)?);
        if let Some(secret) = in_header {
            // "encoded using the application/x-www-form-urlencoded encoding algorithm" (RFC 6749, 2.3.1).
            request = request.basic_auth(escaped(&oauth.client_id)?, Some(escaped(secret)?));
        }
        let mut response = request.send().await.map_err(root_of)?;
        let status = response.status();
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(root_of)? {
            body.extend_from_slice(&chunk);
            if body.len() > LONGEST {
                return Err("its answer is too long".to_owned());
            }
        }
        if !status.is_success() {
            return Err(match serde_json::from_slice::<Refusal>(&body) {
                Ok(Refusal { error, description: Some(why) }) => format!("{error} ({why}), status {status}"),
                Ok(Refusal { error, description: None }) => format!("{error}, status {status}"),
                Err(_) => format!("status {status}"),
            });
        }
        // The text of the reading error could repeat a piece of the token.
        let granted: Granted =
            serde_json::from_slice(&body).map_err(|_| "its answer has no `access_token`".to_owned())?;
        if granted.token_type.as_deref().is_some_and(|kind| !kind.eq_ignore_ascii_case("bearer")) {
            return Err("it gives tokens of a type that is not `Bearer`".to_owned());
        }
        Ok(granted)
    }

    /// A refresh token that takes the place of the one before. Where that was in a file, the new one is written there:
    /// the old one may be worthless from now on, and the next process needs it.
    fn keep_refresh_token(&self, kept: &mut Kept, next: String) {
        match &self.oauth.refresh_token {
            Some(Secret::File(path)) => match replace(path, &next) {
                Ok(()) => {
                    kept.refresh = None;
                    return;
                }
                Err(error) => {
                    tracing::error!(file = %path.display(), %error, "the renewed refresh token cannot be written");
                }
            },
            // A server of client credentials need give none, and whoever has none to renew needs none.
            None => return,
            Some(Secret::Text(_)) if kept.refresh.is_none() => tracing::warn!(
                server = %self.oauth.token_url,
                "refresh tokens are renewed there and lost at the next start: keep the token in a file"
            ),
            _ => {}
        }
        kept.refresh = Some(next);
    }
}

impl fmt::Debug for OAuth {
    /// The resource may be a URL that is a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuth")
            .field("token_url", &self.token_url)
            .field("client_id", &self.client_id)
            .field("client_secret", &self.client_secret)
            .field("secret_in_form", &self.secret_in_form)
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

/// A form as it is sent.
fn encoded(form: &[(&str, &str)]) -> Result<String, String> {
    let mut url = Url::parse("http://form/").map_err(|error| error.to_string())?;
    url.query_pairs_mut().extend_pairs(form);
    Ok(url.query().unwrap_or_default().to_owned())
}

fn escaped(text: &str) -> Result<String, String> {
    Ok(encoded(&[("", text)])?.trim_start_matches('=').to_owned())
}

#[derive(Deserialize)]
struct Granted {
    access_token: String,
    #[serde(default)]
    token_type: Option<String>,
    #[serde(default)]
    expires_in: Option<serde_json::Value>,
    #[serde(default)]
    refresh_token: Option<String>,
}

impl Granted {
    /// How many seconds the token is good for. Some servers write the number as a string.
    fn lasts(&self) -> Option<f64> {
        let said = self.expires_in.as_ref()?;
        said.as_f64().or_else(|| said.as_str()?.parse().ok()).filter(|seconds| seconds.is_finite())
    }
}

#[derive(Deserialize)]
struct Refusal {
    error: String,
    #[serde(default, rename = "error_description")]
    description: Option<String>,
}

//! A token that is good for some time, and the answer it comes in (RFC 6749, sections 5.1 and 5.2).

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// A token is renewed this long before its end, so that it does not end on its way.
const EARLY: Duration = Duration::from_secs(30);

/// Keeps a token until shortly before its end. Clones share it.
#[derive(Clone, Default)]
pub struct Kept(Arc<Mutex<Option<Access>>>);

struct Access {
    token: String,
    /// When to fetch another one; `None` if it was not said when it ends.
    renew_at: Option<Instant>,
}

impl Kept {
    /// A token that is good now, as far as is known, or else the one that is fetched. `refused` is one that was not accepted: it
    /// is not given out again. Whoever comes meanwhile waits for the same answer.
    ///
    /// # Errors
    ///
    /// What went wrong with fetching it.
    pub async fn or_fetch<E>(
        &self,
        refused: Option<&str>,
        fetch: impl Future<Output = Result<Granted, E>>,
    ) -> Result<String, E> {
        let mut kept = self.0.lock().await;
        if let Some(access) = &*kept
            && refused != Some(access.token.as_str())
            && access.renew_at.is_none_or(|at| Instant::now() < at)
        {
            return Ok(access.token.clone());
        }
        let granted = fetch.await?;
        let lasts = granted.lasts().map(|seconds| Duration::from_secs_f64(seconds.clamp(0.0, 1e9)));
        // Half of a very short life is better than none.
        let renew_at = lasts.map(|lasts| Instant::now() + lasts.saturating_sub(EARLY).max(lasts / 2));
        *kept = Some(Access { token: granted.access_token.clone(), renew_at });
        Ok(granted.access_token)
    }

    /// Forgets the token; whether there was one.
    pub async fn forget(&self) -> bool {
        self.0.lock().await.take().is_some()
    }
}

/// What is kept at the moment makes no difference.
impl PartialEq for Kept {
    fn eq(&self, _: &Kept) -> bool {
        true
    }
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Kept")
    }
}

/// The answer of a token endpoint.
#[derive(Deserialize)]
pub struct Granted {
    access_token: String,
    #[serde(default)]
    token_type: Option<String>,
    #[serde(default)]
    expires_in: Option<serde_json::Value>,
    #[serde(default)]
    pub(crate) refresh_token: Option<String>,
}

impl Granted {
    /// Reads it.
    ///
    /// # Errors
    ///
    /// What is wrong with it, as the end of a sentence. The text of the reading error could repeat a piece of the token.
    pub fn read(body: &[u8]) -> Result<Granted, String> {
        let granted: Granted =
            serde_json::from_slice(body).map_err(|_| "its answer has no `access_token`".to_owned())?;
        match &granted.token_type {
            Some(kind) if !kind.eq_ignore_ascii_case("bearer") => {
                Err("it gives tokens of a type that is not `Bearer`".to_owned())
            }
            _ => {
                crate::redact::know(&granted.access_token);
                granted.refresh_token.iter().for_each(|token| crate::redact::know(token));
                Ok(granted)
            }
        }
    }

    /// How many seconds the token is good for. Some servers write the number as a string.
    fn lasts(&self) -> Option<f64> {
        let said = self.expires_in.as_ref()?;
        said.as_f64().or_else(|| said.as_str()?.parse().ok()).filter(|seconds| seconds.is_finite())
    }
}

/// What a token endpoint says that gives no token, for people.
pub fn refusal(status: impl std::fmt::Display, body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Refusal {
        error: String,
        #[serde(default, rename = "error_description")]
        description: Option<String>,
    }
    match serde_json::from_slice(body) {
        Ok(Refusal { error, description: Some(why) }) => format!("{error} ({why}), status {status}"),
        Ok(Refusal { error, description: None }) => format!("{error}, status {status}"),
        Err(_) => format!("status {status}"),
    }
}

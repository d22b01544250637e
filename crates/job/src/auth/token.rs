//! A token that is good for some time.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::failure::{Failure, Refusal};
use crate::http::{Http, Prepared};

/// A token is not used in the last part of its time, in which it may run out on its way.
const MARGIN: Duration = Duration::from_secs(30);
/// How long one is good that does not say so.
const USUAL: Duration = Duration::from_secs(300);

/// Keeps a token until shortly before its end. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Kept(Arc<Mutex<Option<Token>>>);

struct Token {
    text: String,
    until: Instant,
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

impl PartialEq for Kept {
    /// What is kept at the moment makes no difference.
    fn eq(&self, _: &Kept) -> bool {
        true
    }
}

impl Kept {
    /// The token that is kept, or one that is asked for now. Whoever comes meanwhile waits for it and asks no second time.
    pub async fn or_fetch(
        &self,
        fetch: impl Future<Output = Result<Fetched, Failure>>,
    ) -> Result<String, Failure> {
        let mut kept = self.0.lock().await;
        if let Some(token) = &*kept
            && Instant::now() < token.until
        {
            return Ok(token.text.clone());
        }
        let fetched = fetch.await?;
        let good = fetched.expires_in.map_or(USUAL, Duration::from_secs);
        // One that is only good for a minute is used for half of it.
        let until = Instant::now() + good.saturating_sub(MARGIN).max(good / 2);
        *kept = Some(Token { text: fetched.access_token.clone(), until });
        Ok(fetched.access_token)
    }

    /// Forgets the token; whether there was one.
    pub async fn forget(&self) -> bool {
        self.0.lock().await.take().is_some()
    }
}

/// The answer of a token endpoint (RFC 6749, section 5.1).
#[derive(Deserialize)]
pub struct Fetched {
    pub access_token: String,
    #[serde(default)]
    pub expires_in: Option<u64>,
}

/// Asks a token endpoint, on behalf of this request.
pub async fn fetch(http: &Http, prepared: &Prepared, request: &'static str) -> Result<Fetched, Failure> {
    // No answer to this one leaves it open whether a job was started.
    let why = |failure: &Failure| format!("no token: {failure}");
    let answer =
        http.exchange(prepared).await.map_err(|failure| Failure::Unsent { request, why: why(&failure) })?;
    if answer.code != 200 {
        let refusal = Refusal {
            code: answer.code,
            excerpt: answer.excerpt(),
            retry_after: answer.retry_after(),
            passes: false,
        };
        let refused = Failure::Refused { request: prepared.name, refusal };
        return Err(match refused.is_transient() {
            true => Failure::Unsent { request, why: why(&refused) },
            false => Failure::Unmade { request, why: why(&refused) },
        });
    }
    // What it says is a secret, so it is not shown.
    answer.parsed().ok_or_else(|| Failure::Unmade {
        request,
        why: "the token endpoint's answer has no token".to_owned(),
    })
}

//! Tokens that only their issuer can read: it is asked about them (RFC 7662).

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Map, Value};
use taskgate_credentials::{OAuth, basic_form};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use crate::clock::now;
use crate::config::{Asking, Issuer};
use crate::fetch::{Ask, Fetch};
use crate::jwt::{check_audience, check_times};
use crate::refusal::Refusal;
use crate::resource::Resource;
use crate::tokens::TokenHash;

/// How long a good answer counts. A token that is withdrawn is good for as long.
const GOOD_FOR: Duration = Duration::from_secs(30);

/// How long a bad one does: so long that a client in a loop is no burden, so short that nobody waits for a token to begin to work.
const BAD_FOR: Duration = Duration::from_secs(5);

/// How many answers are kept.
const MOST: usize = 10_000;

/// How many questions are out at a time: whoever makes tokens up must not flood the issuer.
const AT_ONCE: usize = 16;

/// How long a question may wait for its turn.
const PATIENCE: Duration = Duration::from_secs(5);

/// What an issuer has said of a token.
type Said = Result<Map<String, Value>, Refusal>;

/// What one issuer is asked, and has answered.
pub struct Introspection {
    asking: Asking,
    fetch: Fetch,
    /// By the hash of the token: what is kept here is of no use to anybody.
    known: Mutex<HashMap<TokenHash, (Instant, Said)>>,
    turns: Semaphore,
}

impl Introspection {
    pub fn new(asking: Asking, fetch: Fetch) -> Introspection {
        Introspection { asking, fetch, known: Mutex::default(), turns: Semaphore::new(AT_ONCE) }
    }

    /// What the issuer says of a token, held against what is expected.
    pub async fn check(&self, token: &str, hash: &TokenHash, issuer: &Issuer, resource: &Resource) -> Said {
        let kept = self
            .known
            .lock()
            .get(hash)
            .filter(|(until, _)| Instant::now() < *until)
            .map(|(_, said)| said.clone());
        let said = match kept {
            Some(said) => said,
            None => self.ask(token, hash, issuer, resource).await?,
        };
        let claims = said?;
        // Its end may have come since.
        check_times(&claims, issuer.leeway.as_secs_f64(), now())?;
        Ok(claims)
    }

    async fn ask(
        &self,
        token: &str,
        hash: &TokenHash,
        issuer: &Issuer,
        resource: &Resource,
    ) -> Result<Said, Refusal> {
        let _turn = match timeout(PATIENCE, self.turns.acquire()).await {
            Ok(Ok(turn)) => turn,
            _ => return Err(Refusal::Unavailable("too many of them are being checked")),
        };
        let Asking { url, client_id, client_secret } = &self.asking;
        let oauth = OAuth::new(client_id, client_secret.clone());
        let form =
            basic_form(&oauth, &[("token", token), ("token_type_hint", "access_token")]).map_err(|why| {
                tracing::warn!(issuer = issuer.name, why, "the issuer cannot be asked about tokens");
                Refusal::Unavailable("its issuer cannot be asked")
            })?;
        let body = (self.fetch)(Ask { url: url.clone(), is_written: true, form: Some(form) }).await.map_err(
            |why| {
                tracing::warn!(issuer = issuer.name, why, "the issuer does not say what a token is");
                Refusal::Unavailable("its issuer does not answer")
            },
        )?;
        let claims: Map<String, Value> = serde_json::from_slice(&body).map_err(|_| {
            tracing::warn!(
                issuer = issuer.name,
                "the issuer answers something else when it is asked about a token"
            );
            Refusal::Unavailable("its issuer does not answer as it should")
        })?;
        let said = judge(claims, issuer, resource);
        self.keep(hash, said.clone());
        Ok(said)
    }

    fn keep(&self, hash: &TokenHash, said: Said) {
        let now = Instant::now();
        let mut known = self.known.lock();
        if known.len() >= MOST {
            known.retain(|_, (until, _)| now < *until);
        }
        if known.len() >= MOST {
            // Nothing is lost but time.
            known.clear();
        }
        let lasts = if said.is_ok() { GOOD_FOR } else { BAD_FOR };
        known.insert(hash.clone(), (now + lasts, said));
    }
}

fn judge(claims: Map<String, Value>, issuer: &Issuer, resource: &Resource) -> Said {
    if claims.get("active") != Some(&Value::Bool(true)) {
        return Err(Refusal::Inactive);
    }
    // It need not say who it is, having been asked; what it says must be true.
    if claims.get("iss").is_some_and(|said| said.as_str() != Some(&issuer.name)) {
        return Err(Refusal::WrongIssuer);
    }
    check_times(&claims, issuer.leeway.as_secs_f64(), now())?;
    check_audience(&claims, issuer, resource)?;
    Ok(claims)
}

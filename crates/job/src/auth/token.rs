//! Asking for a token, on behalf of another request.

use std::time::Duration;

use reqwest::{Method, Url};
use taskgate_credentials::{NoToken, Tokens};

use crate::failure::{Failure, Refusal};
use crate::http::{Http, Prepared};

/// How long the answer may take.
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// A token that is good now, asked for at this endpoint if there is none.
pub async fn get(tokens: &Tokens, url: &Url, http: &Http, request: &'static str) -> Result<String, Failure> {
    let ask = async |grant: taskgate_credentials::Grant| {
        let sent = grant.request().map_err(|why| Failure::Unmade { request, why })?;
        let prepared = Prepared {
            name: "token",
            method: Method::POST,
            url: url.clone(),
            headers: sent.headers,
            body: sent.body.into_bytes(),
            timeout: TIMEOUT,
            is_written: true,
        };
        fetch(http, &prepared, request).await
    };
    tokens.token(None, ask).await.map_err(|none| match none {
        NoToken::Unusable(why) => no_token(request, &why),
        NoToken::Sending(failure) => failure,
    })
}

/// The failure of a request that nothing can be sent for.
pub fn no_token(request: &'static str, why: &str) -> Failure {
    Failure::Unmade { request, why: format!("no token: {why}") }
}

/// Asks a token endpoint, on behalf of this request.
pub async fn fetch(http: &Http, prepared: &Prepared, request: &'static str) -> Result<Vec<u8>, Failure> {
    // No answer to this one leaves it open whether a job was started.
    let why = |failure: &Failure| format!("no token: {failure}");
    let answer =
        http.exchange(prepared).await.map_err(|failure| Failure::Unsent { request, why: why(&failure) })?;
    if answer.code == 200 {
        return Ok(answer.text().as_bytes().to_vec());
    }
    let refusal = Refusal {
        code: answer.code,
        excerpt: answer.excerpt(),
        retry_after: answer.retry_after(),
        passes: false,
    };
    let refused = Failure::Refused { request: prepared.name, refusal };
    Err(match refused.is_transient() {
        true => Failure::Unsent { request, why: why(&refused) },
        false => Failure::Unmade { request, why: why(&refused) },
    })
}

//! Who we are for a job API: one file for each way to say it.

#[cfg(feature = "aws")]
mod aws;
mod google;
mod token;

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderName};
use taskgate_credentials::{Secret, Tokens, secret_header};

use crate::failure::Failure;
use crate::http::{Http, Prepared};

#[cfg(feature = "aws")]
pub use aws::Aws;
pub use google::Google;

/// How a request says who sends it.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Auth {
    /// It does not.
    #[default]
    None,
    /// With a token that was given to us.
    Bearer(Secret),
    /// With a name and a password.
    Basic {
        /// The name.
        user: String,
        /// The password.
        password: Secret,
    },
    /// With a header of its own.
    Header {
        /// The header.
        name: HeaderName,
        /// Its value.
        value: Secret,
    },
    /// With a token that is asked for (OAuth 2.0).
    OAuth {
        /// Where tokens are given out.
        token_url: Url,
        /// How they are asked for.
        tokens: Arc<Tokens>,
    },
    /// With a token of a service account of Google Cloud.
    Google(Google),
    /// By signing it, as Amazon Web Services want it.
    #[cfg(feature = "aws")]
    Aws(Aws),
}

impl Auth {
    /// Adds to a request what says who we are.
    pub(crate) async fn sign(&self, http: &Http, prepared: &mut Prepared) -> Result<(), Failure> {
        let request = prepared.name;
        let unmade = |why: String| Failure::Unmade { request, why };
        match self {
            Auth::None => {}
            Auth::Bearer(secret) => {
                let token = secret.read().map_err(unmade)?;
                put(prepared, AUTHORIZATION, &format!("Bearer {token}"))?;
            }
            Auth::Basic { user, password } => {
                let password = password.read().map_err(unmade)?;
                let both = STANDARD.encode(format!("{user}:{password}"));
                put(prepared, AUTHORIZATION, &format!("Basic {both}"))?;
            }
            Auth::Header { name, value } => {
                let value = value.read().map_err(unmade)?;
                put(prepared, name.clone(), &value)?;
            }
            Auth::OAuth { token_url, tokens } => {
                let token = token::get(tokens, token_url, http, request).await?;
                put(prepared, AUTHORIZATION, &format!("Bearer {token}"))?;
            }
            Auth::Google(google) => {
                let token = google.token(http, request).await?;
                put(prepared, AUTHORIZATION, &format!("Bearer {token}"))?;
            }
            #[cfg(feature = "aws")]
            Auth::Aws(aws) => aws.sign(prepared)?,
        }
        Ok(())
    }

    /// Forgets what was kept and is not believed any more; whether another try makes sense.
    pub(crate) async fn forget(&self) -> bool {
        match self {
            Auth::None | Auth::Basic { .. } | Auth::Header { .. } | Auth::Bearer(_) => false,
            #[cfg(feature = "aws")]
            Auth::Aws(_) => false,
            Auth::OAuth { tokens, .. } => tokens.forget().await,
            Auth::Google(google) => google.forget().await,
        }
    }
}

/// Adds a header whose value is a secret.
fn put(prepared: &mut Prepared, name: HeaderName, value: &str) -> Result<(), Failure> {
    let value = secret_header(value)
        .map_err(|why| Failure::Unmade { request: prepared.name, why: format!("{name}: {why}") })?;
    prepared.headers.insert(name, value);
    Ok(())
}

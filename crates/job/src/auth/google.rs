//! Tokens of Google Cloud: of a service account's key, or of the machine itself.
//!
//! The statement is signed with what TLS signs with. A crate for such statements would bring a second RSA along.

use std::time::UNIX_EPOCH;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Url};
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject;
use serde::Deserialize;
use serde_json::json;
use taskgate_credentials::{Granted, Kept, Secret, form};

use super::token::{self, TIMEOUT};
use crate::clock;
use crate::failure::Failure;
use crate::http::{Http, Prepared};

/// How long what we sign is good: long enough for a clock that is a little off.
const GOOD_FOR: u64 = 600;

/// A service account of Google Cloud.
#[derive(Debug, Clone, PartialEq)]
pub struct Google {
    /// The account's key, a JSON file. Without one, the machine we run on is asked for a token of its own account.
    pub key: Option<Secret>,
    /// What the token is to be good for.
    pub scope: String,
    /// Where tokens are given out, if not where the key, or Google, says.
    pub token_url: Option<Url>,
    kept: Kept,
}

/// What we need of a key.
#[derive(Deserialize)]
struct Key {
    client_email: String,
    private_key: String,
    private_key_id: Option<String>,
    token_uri: String,
}

impl Google {
    /// Tokens of this account.
    pub fn new(key: Option<Secret>, scope: String, token_url: Option<Url>) -> Google {
        Google { key, scope, token_url, kept: Kept::default() }
    }

    pub(super) async fn token(&self, http: &Http, request: &'static str) -> Result<String, Failure> {
        self.kept.or_fetch(None, self.fetch(http, request)).await
    }

    pub(super) async fn forget(&self) -> bool {
        self.kept.forget().await
    }

    async fn fetch(&self, http: &Http, request: &'static str) -> Result<Granted, Failure> {
        let unmade = |why: String| Failure::Unmade { request, why };
        let prepared = match &self.key {
            Some(key) => self.signed(&key.read().map_err(unmade)?),
            None => self.of_this_machine(),
        };
        let body = token::fetch(http, &prepared.map_err(unmade)?, request).await?;
        Granted::read(&body).map_err(|why| token::no_token(request, &why))
    }

    /// Asks for a token with a statement that the account's key has signed (RFC 7523).
    fn signed(&self, key: &str) -> Result<Prepared, String> {
        // What exactly is wrong with it may show a part of it.
        let key: Key = serde_json::from_str(key)
            .map_err(|_| "the key of the service account is not the JSON that Google gives out".to_owned())?;
        let url = match &self.token_url {
            Some(url) => url.clone(),
            None => Url::parse(&key.token_uri)
                .map_err(|error| format!("the service account's `token_uri` is no URL: {error}"))?,
        };
        let now = clock::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let header = json!({ "alg": "RS256", "typ": "JWT", "kid": key.private_key_id });
        let claims = json!({
            "iss": key.client_email, "scope": self.scope, "aud": url.as_str(), "iat": now, "exp": now + GOOD_FOR,
        });
        let [header, claims] = [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string()));
        let statement = format!("{header}.{claims}");
        let signature = sign(&key.private_key, statement.as_bytes())
            .ok_or("the private key of the service account cannot be used")?;
        let assertion = format!("{statement}.{}", URL_SAFE_NO_PAD.encode(signature));
        let grant = "urn:ietf:params:oauth:grant-type:jwt-bearer";
        let body = form(&[("grant_type", grant), ("assertion", &assertion)]).into_bytes();
        let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, kind)]);
        Ok(Prepared {
            name: "token",
            method: Method::POST,
            url,
            headers,
            body,
            timeout: TIMEOUT,
            is_written: true,
        })
    }

    fn of_this_machine(&self) -> Result<Prepared, String> {
        let usual =
            "http://metadata.google.internal/computeMetadata/v1/instance/service-accounts/default/token";
        let url = match &self.token_url {
            Some(url) => url.clone(),
            None => Url::parse(usual).map_err(|error| error.to_string())?,
        };
        let flavor = (HeaderName::from_static("metadata-flavor"), HeaderValue::from_static("Google"));
        let headers = HeaderMap::from_iter([flavor]);
        Ok(Prepared {
            name: "token",
            method: Method::GET,
            url,
            headers,
            body: Vec::new(),
            timeout: TIMEOUT,
            is_written: true,
        })
    }
}

fn sign(private_key: &str, what: &[u8]) -> Option<Vec<u8>> {
    let key = PrivatePkcs8KeyDer::from_pem_slice(private_key.as_bytes()).ok()?;
    let key = RsaKeyPair::from_pkcs8(key.secret_pkcs8_der()).ok()?;
    let mut signature = vec![0; key.public().modulus_len()];
    key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), what, &mut signature).ok()?;
    Some(signature)
}

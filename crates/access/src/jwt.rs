//! Tokens that are signed: read, believed, and held against what is expected of them (RFC 7519, RFC 9068, RFC 8725).

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, Validation};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::config::Issuer;
use crate::keys::Keys;
use crate::refusal::Refusal;
use crate::resource::Resource;

/// What a token says of itself, believed by nobody so far.
pub struct Unverified {
    head: Head,
    /// Who says to have given it out.
    pub issuer: Option<String>,
}

#[derive(Deserialize)]
struct Head {
    alg: String,
    kid: Option<String>,
    crit: Option<Value>,
}

#[derive(Deserialize)]
struct Body {
    iss: Option<Value>,
}

impl Unverified {
    /// Reads a token that looks like a signed one; `None` if it does not.
    pub fn read(token: &str) -> Option<Unverified> {
        let mut parts = token.split('.');
        let (Some(head), Some(body), Some(_), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return None;
        };
        let head: Head = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(head).ok()?).ok()?;
        let body: Body = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(body).ok()?).ok()?;
        let issuer = body.iss.and_then(|issuer| issuer.as_str().map(str::to_owned));
        Some(Unverified { head, issuer })
    }
}

/// The claims of a token, if its issuer has signed it. What they say has still to be looked at.
pub async fn verify(
    token: &str,
    unverified: &Unverified,
    algorithms: &[Algorithm],
    keys: &Arc<Keys>,
) -> Result<Map<String, Value>, Refusal> {
    let Head { alg, kid, crit } = &unverified.head;
    if crit.is_some() {
        // "Recipients MUST reject what they do not understand" (RFC 7515, 4.1.11), and none of it is understood.
        return Err(Refusal::Malformed("it has critical extensions"));
    }
    let algorithm: Algorithm = match alg.as_str() {
        "Ed25519" => Algorithm::EdDSA,
        named => named.parse().map_err(|_| Refusal::Algorithm)?,
    };
    if !algorithms.contains(&algorithm) {
        return Err(Refusal::Algorithm);
    }
    let mut validation = Validation::new(algorithm);
    // Who it is from and for, and for how long, is looked at here, where it is said what is wrong.
    (validation.validate_exp, validation.validate_aud) = (false, false);
    validation.required_spec_claims.clear();
    let found = keys.find(kid.as_deref(), algorithm).await?;
    let mut refusal = Refusal::UnknownKey;
    for key in found.iter() {
        match jsonwebtoken::decode(token, &key.key, &validation) {
            Ok(decoded) => return Ok(decoded.claims),
            Err(_) => refusal = Refusal::BadSignature,
        }
    }
    Err(refusal)
}

/// Holds claims that are believed against what is expected of them.
pub fn check(
    claims: &Map<String, Value>,
    issuer: &Issuer,
    resource: &Resource,
    now: f64,
) -> Result<(), Refusal> {
    if claims.get("iss").and_then(Value::as_str) != Some(&issuer.name) {
        return Err(Refusal::WrongIssuer);
    }
    check_times(claims, issuer.leeway.as_secs_f64(), now)?;
    check_audience(claims, issuer, resource)
}

/// Whether it is good now. One that is good for ever is good for whoever steals it.
pub fn check_times(claims: &Map<String, Value>, leeway: f64, now: f64) -> Result<(), Refusal> {
    let ends = claims.get("exp").and_then(Value::as_f64).ok_or(Refusal::NoExpiry)?;
    if now >= ends + leeway {
        return Err(Refusal::Expired);
    }
    match claims.get("nbf").map(Value::as_f64) {
        Some(Some(begins)) if begins <= now + leeway => Ok(()),
        Some(_) => Err(Refusal::NotYetValid),
        None => Ok(()),
    }
}

/// Whether it is for this server, among others perhaps.
pub fn check_audience(
    claims: &Map<String, Value>,
    issuer: &Issuer,
    resource: &Resource,
) -> Result<(), Refusal> {
    let is_ours = |said: &Value| {
        said.as_str().is_some_and(|said| match &issuer.audiences[..] {
            [] => resource.is_meant_by(said),
            named => named.iter().any(|audience| audience == said),
        })
    };
    let is_for_us = match claims.get("aud") {
        Some(Value::Array(several)) => several.iter().any(is_ours),
        Some(one) => is_ours(one),
        None => false,
    };
    if is_for_us { Ok(()) } else { Err(Refusal::WrongAudience) }
}

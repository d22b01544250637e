use std::collections::BTreeMap;
use std::fmt::{self, Write};

use taskgate_access::{AccessConfig, Issuer, KeySource, Proof};
use toml::Value;

use super::{list, secret, set, text};
use crate::config::duration::format_duration;

/// `[auth]` and all that is in it.
pub(super) fn write_auth(out: &mut String, auth: &AccessConfig) -> fmt::Result {
    writeln!(out, "\n[auth]")?;
    set(out, "resource", text(&auth.resource))?;
    if let Some(proxy) = &auth.proxy {
        writeln!(out, "\n[auth.proxy]")?;
        set(out, "header", text(&proxy.header))?;
        set(out, "addresses", Value::Array(proxy.addresses.iter().map(text).collect()))?;
        set(out, "scopes", list(&proxy.scopes))?;
    }
    if let Some(certificates) = &auth.certificates {
        writeln!(out, "\n[auth.mtls]")?;
        set(out, "subject", text(certificates.subject.as_str()))?;
        set(out, "scopes", list(&certificates.scopes))?;
    }
    writeln!(out, "\n[auth.scopes]")?;
    let rights = &auth.rights;
    set(out, "required", list(&rights.required))?;
    set(out, "methods", table(&rights.methods))?;
    set(out, "tools", table(&rights.tools))?;
    set(out, "includes", table(&rights.includes))?;
    for issuer in &auth.issuers {
        write_issuer(out, issuer)?;
    }
    for token in &auth.tokens {
        writeln!(out, "\n[[auth.token]]")?;
        set(out, "name", text(&token.name))?;
        set(out, "sha256", text(&token.hash))?;
        set(out, "scopes", list(&token.scopes))?;
    }
    Ok(())
}

fn write_issuer(out: &mut String, issuer: &Issuer) -> fmt::Result {
    writeln!(out, "\n[[auth.issuer]]")?;
    set(out, "issuer", text(&issuer.name))?;
    if !issuer.audiences.is_empty() {
        set(out, "audience", list(&issuer.audiences))?;
    }
    match &issuer.proof {
        Proof::Signed { algorithms, keys } => {
            let names: Vec<String> = algorithms.iter().map(|algorithm| format!("{algorithm:?}")).collect();
            set(out, "algorithms", list(&names))?;
            if let KeySource::At(url) = keys {
                set(out, "jwks_url", text(url))?;
            }
        }
        Proof::Asked(asking) => {
            set(out, "introspection_url", text(&asking.url))?;
            set(out, "client_id", text(&asking.client_id))?;
            set(out, "client_secret", secret(&asking.client_secret))?;
        }
    }
    set(out, "leeway", text(format_duration(issuer.leeway)))?;
    set(out, "plain_http", issuer.plain_http)
}

fn table(lists: &BTreeMap<String, Vec<String>>) -> Value {
    Value::Table(lists.iter().map(|(name, words)| (name.clone(), list(words))).collect())
}

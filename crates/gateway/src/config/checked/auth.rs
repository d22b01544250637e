//! Who is let in, and what each may do.

use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;

use taskgate_access::{
    AccessConfig, Algorithm, Asking, Certificates, Issuer, KeySource, Proof, Proxy, Resource, Rights,
    StaticToken, SubjectKind, TokenHash, is_scope,
};
use taskgate_client::transport::http::{HeaderName, ServerUrl};
use toml::Spanned;

use super::http::place_of;
use super::{Surroundings, span_of};
use crate::config::fields::Entry;
use crate::config::limits;
use crate::config::raw::RawConfig;
use crate::config::raw::auth::{RawIssuer, RawLists, RawMtls, RawProxy, RawScopes, RawToken};

/// Headers that are there for something else.
const OTHERS: &[&str] = &[
    "accept",
    "authorization",
    "connection",
    "content-length",
    "content-type",
    "host",
    "last-event-id",
    "origin",
    "idempotency-key",
    "transfer-encoding",
];

/// The longest name of a token, in bytes.
const LONGEST_NAME: usize = 128;

type Words = Entry<Vec<Spanned<String>>>;

/// Checks `[auth]`; nothing if there is none.
pub(super) fn check(raw: &RawConfig, path: &str, around: &Surroundings<'_>) -> Option<AccessConfig> {
    let auth = raw.auth.as_ref()?;
    let (span, auth) = (auth.span(), auth.get_ref());
    if let Some(single) = raw.single_user.as_ref().filter(|single| *single.get_ref()) {
        let what = "`single_user` takes every caller for the same one, and [auth] tells them apart";
        around.problems.add_with_help(single.span(), what, "allowed: one of the two");
    }
    if !auth.has_some {
        let what = "[auth] has none of [[auth.issuer]], [[auth.token]], [auth.mtls] and [auth.proxy], so nobody could come in";
        let help = "add whose tokens are taken; without [auth] no token is needed";
        around.problems.add_with_help(span.clone(), what, help);
    }
    let tokens = tokens(&auth.tokens, around);
    let issuers: Vec<Issuer> =
        auth.issuers.iter().filter_map(|issuer| check_issuer(issuer, around)).collect();
    for (at, issuer) in auth.issuers.iter().enumerate() {
        let Some(name) = &issuer.get_ref().issuer else { continue };
        let same = |other: &Spanned<RawIssuer>| {
            other.get_ref().issuer.as_ref().is_some_and(|other| other.get_ref() == name.get_ref())
        };
        if auth.issuers[..at].iter().any(same) {
            let what = format!("the issuer \"{}\" is there twice", name.get_ref().escape_debug());
            around.problems.add(name.span(), what);
        }
    }
    Some(AccessConfig {
        resource: resource(raw, &auth.resource, path, span, around)?,
        issuers,
        tokens,
        certificates: auth.mtls.as_ref().and_then(|mtls| check_mtls(mtls, raw, around)),
        proxy: auth.proxy.as_ref().and_then(|proxy| check_proxy(proxy, around)),
        rights: rights(&auth.scopes, around),
        reach: around.reach.clone(),
    })
}

/// What tokens are for: what is written, or else what others reach this server by.
fn resource(
    raw: &RawConfig,
    written: &Entry<String>,
    path: &str,
    span: std::ops::Range<usize>,
    around: &Surroundings<'_>,
) -> Option<Resource> {
    let allowed =
        "the address of this server as its clients know it, such as \"https://mcp.example.org/mcp\"";
    if written.is_some() {
        return around.parsed(written, "resource", allowed, Resource::parse);
    }
    if let Some(url) = &raw.public_url {
        // A bad one is told of where it stands.
        return Resource::parse(&format!("{}{path}", url.get_ref().trim_end_matches('/'))).ok();
    }
    let what = "[auth] has no `resource`, and there is no `public_url`: nobody can say what a token is for";
    around.problems.add_with_help(span, what, format!("add `resource`: {allowed}"));
    None
}

fn check_issuer(written: &Spanned<RawIssuer>, around: &Surroundings<'_>) -> Option<Issuer> {
    let (span, raw) = (written.span(), written.get_ref());
    let missing = |key: &str, what: &str| {
        let problem = format!("[[auth.issuer]] has no `{key}`");
        around.problems.add_with_help(span.clone(), problem, format!("add `{key}`: {what}"));
    };
    let plain_http = raw.plain_http.as_ref().is_some_and(|plain| *plain.get_ref());
    let address = "an address with https://; http:// on this machine, or with `plain_http = true`";
    let url = |entry: &Entry<String>, key| {
        around.parsed(entry, key, address, |text| match ServerUrl::parse(text)? {
            url if url.is_exposed() && !plain_http => {
                Err("would be asked over an unencrypted connection".to_owned())
            }
            _ => Ok(text.to_owned()),
        })
    };
    if !raw.has("issuer") {
        missing("issuer", "the `issuer` of its metadata, letter by letter");
    }
    let name = url(&raw.issuer, "issuer");
    let jwks_url = url(&raw.jwks_url, "jwks_url");
    let asked_at = url(&raw.introspection_url, "introspection_url");
    let leeway =
        around.parsed(&raw.leeway, "leeway", &limits::LEEWAY.allowed(), |text| limits::LEEWAY.parse(text));
    let proof = if raw.has("introspection_url") {
        for (key, span) in [("jwks_url", span_of(&raw.jwks_url)), ("algorithms", span_of(&raw.algorithms))] {
            if let Some(span) = span {
                let what = format!(
                    "this issuer has both `introspection_url` and `{key}`: its tokens are believed in one way"
                );
                around.problems.add_with_help(span, what, "allowed: one of the two");
            }
        }
        for key in ["client_id", "client_secret"].into_iter().filter(|key| !raw.has(key)) {
            missing(key, "an issuer answers only those it knows");
        }
        let secret = raw.client_secret.as_ref().and_then(|entry| place_of(entry, "client_secret", around));
        asked_at.zip(raw.client_id.as_ref()).zip(secret).map(|((url, client_id), client_secret)| {
            Proof::Asked(Asking { url, client_id: client_id.get_ref().clone(), client_secret })
        })
    } else {
        for (key, span) in
            [("client_id", span_of(&raw.client_id)), ("client_secret", span_of(&raw.client_secret))]
        {
            if let Some(span) = span {
                let what = format!("`{key}` is for `introspection_url`, which this issuer does not have");
                around.problems.add(span, what);
            }
        }
        let keys = jwks_url.map_or(KeySource::Discovered, KeySource::At);
        Some(Proof::Signed { algorithms: algorithms(&raw.algorithms, around), keys })
    };
    let audiences = raw.audience.iter().flat_map(|words| words.get_ref());
    let issuer = Issuer::new(name?);
    Some(Issuer {
        audiences: audiences.map(|word| word.get_ref().clone()).collect(),
        proof: proof?,
        leeway: leeway.unwrap_or(issuer.leeway),
        plain_http,
        ..issuer
    })
}

fn algorithms(written: &Words, around: &Surroundings<'_>) -> Vec<Algorithm> {
    let Some(written) = written else { return vec![Algorithm::RS256, Algorithm::ES256] };
    let allowed = Issuer::ALGORITHMS.map(|algorithm| format!("{algorithm:?}")).join(", ");
    if written.get_ref().is_empty() {
        around.problems.add_with_help(written.span(), "`algorithms` is empty", format!("allowed: {allowed}"));
    }
    let named = written.get_ref().iter().filter_map(|word| {
        around.parsed_at(word, "algorithms", &allowed, |text| match text.parse::<Algorithm>() {
            Ok(algorithm) if Issuer::ALGORITHMS.contains(&algorithm) => Ok(algorithm),
            Ok(_) => Err("has a secret that issuer and server share, which is not taken here".to_owned()),
            Err(_) => Err("is no algorithm that is known here".to_owned()),
        })
    });
    named.collect()
}

fn tokens(written: &[Spanned<RawToken>], around: &Surroundings<'_>) -> Vec<StaticToken> {
    let (mut names, mut hashes) = (HashSet::new(), HashSet::new());
    let mut tokens = Vec::new();
    for token in written {
        let (span, raw) = (token.span(), token.get_ref());
        for (key, what) in [
            ("name", "whose it is; tasks belong to this name"),
            ("sha256", "what `printf %s TOKEN | sha256sum` prints"),
        ] {
            if !raw.has(key) {
                let problem = format!("[[auth.token]] has no `{key}`");
                around.problems.add_with_help(span.clone(), problem, format!("add `{key}`: {what}"));
            }
        }
        let allowed = format!("1 to {LONGEST_NAME} bytes of plain text, each name once");
        let name = around.parsed(&raw.name, "name", &allowed, |text| match text {
            _ if text.trim().is_empty() => Err("is empty".to_owned()),
            _ if text.len() > LONGEST_NAME => Err("is too long".to_owned()),
            _ if text.chars().any(char::is_control) => Err("has a control character".to_owned()),
            _ if !names.insert(text.to_owned()) => Err("is the name of another token".to_owned()),
            _ => Ok(text.to_owned()),
        });
        // What stands there may be the token itself, which is not repeated.
        let hash = raw.sha256.as_ref().and_then(|text| {
            let hash = TokenHash::parse(text.get_ref()).filter(|hash| hashes.insert(hash.clone()));
            if hash.is_none() {
                let what =
                    "`sha256` is not the SHA-256 of a token in 64 hexadecimal digits, or that of another one";
                around.problems.add_with_help(text.span(), what, "`printf %s TOKEN | sha256sum` prints it");
            }
            hash
        });
        let scopes = scopes(
            raw.scopes.as_ref().map(|scopes| &scopes.get_ref()[..]).unwrap_or_default(),
            "scopes",
            around,
        );
        if let (Some(name), Some(hash)) = (name, hash) {
            tokens.push(StaticToken { name, hash, scopes });
        }
    }
    tokens
}

/// Without an authority whose certificates are believed, none could be shown.
fn check_mtls(
    written: &Spanned<RawMtls>,
    raw: &RawConfig,
    around: &Surroundings<'_>,
) -> Option<Certificates> {
    if raw.tls.as_ref().is_none_or(|tls| tls.get_ref().client_ca.is_none()) {
        let what = "[auth.mtls] needs certificates of clients, and nobody is asked for one";
        around.problems.add_with_help(
            written.span(),
            what,
            "add `client_ca` to [tls]: whose certificates count",
        );
    }
    let allowed = SubjectKind::ALL.map(|kind| format!("\"{}\"", kind.as_str())).join(", ");
    let subject = match &written.get_ref().subject {
        None => SubjectKind::default(),
        subject => around.parsed(subject, "subject", &allowed, |text| {
            let known = SubjectKind::ALL.into_iter().find(|kind| kind.as_str() == text);
            known.ok_or_else(|| "is no name of a certificate".to_owned())
        })?,
    };
    let words = written.get_ref().scopes.as_ref().map(|scopes| &scopes.get_ref()[..]);
    Some(Certificates { subject, scopes: scopes(words.unwrap_or_default(), "scopes", around) })
}

/// A header counts from some addresses only: without any, everybody could say who they are.
fn check_proxy(written: &Spanned<RawProxy>, around: &Surroundings<'_>) -> Option<Proxy> {
    let (span, raw) = (written.span(), written.get_ref());
    for (key, what) in
        [("header", "in which the proxy says who is calling"), ("addresses", "where the proxy connects from")]
    {
        if !raw.written.iter().any(|written| written == key) {
            let problem = format!("[auth.proxy] has no `{key}`");
            around.problems.add_with_help(span.clone(), problem, format!("add `{key}`: {what}"));
        }
    }
    let allowed = "the name of a header that nothing else uses, such as \"X-Authenticated-User\"";
    let header =
        around.parsed(&raw.header, "header", allowed, |text| match HeaderName::from_bytes(text.as_bytes()) {
            Ok(name) if OTHERS.contains(&name.as_str()) || name.as_str().starts_with("mcp-") => {
                Err("means something else".to_owned())
            }
            Ok(name) => Ok(name.as_str().to_owned()),
            Err(_) => Err("cannot be the name of a header".to_owned()),
        });
    let addresses = raw.addresses.as_ref()?;
    if addresses.get_ref().is_empty() {
        around.problems.add(addresses.span(), "`addresses` is empty, so nobody could be the proxy");
    }
    let parsed = addresses.get_ref().iter().filter_map(|address| {
        around.parsed_at(address, "addresses", "an IP address, such as \"10.0.0.5\" or \"::1\"", |text| {
            text.parse::<IpAddr>()
                .map(|address| address.to_canonical())
                .map_err(|_| "is no IP address".to_owned())
        })
    });
    let (addresses, words) = (parsed.collect(), raw.scopes.as_ref().map(|scopes| &scopes.get_ref()[..]));
    Some(Proxy { header: header?, addresses, scopes: scopes(words.unwrap_or_default(), "scopes", around) })
}

fn rights(written: &RawScopes, around: &Surroundings<'_>) -> Rights {
    let table = |entry: &Entry<RawLists>, key| -> BTreeMap<String, Vec<String>> {
        let lists = entry.iter().flat_map(|lists| &lists.get_ref().0);
        lists.map(|(name, words)| (name.get_ref().clone(), scopes(words, key, around))).collect()
    };
    let required = written.required.as_ref().map(|required| &required.get_ref()[..]).unwrap_or_default();
    Rights {
        required: scopes(required, "required", around),
        methods: table(&written.methods, "methods"),
        tools: table(&written.tools, "tools"),
        includes: table(&written.includes, "includes"),
    }
}

fn scopes(words: &[Spanned<String>], key: &str, around: &Surroundings<'_>) -> Vec<String> {
    let allowed = "each scope as a string of its own, without blanks, quotes and backslashes";
    let check = |text: &str| if is_scope(text) { Ok(text.to_owned()) } else { Err("is no scope".to_owned()) };
    words.iter().filter_map(|word| around.parsed_at(word, key, allowed, check)).collect()
}

//! An upstream that is a URL: where it is, and how it is shown who is calling.

use std::path::Path;
use taskgate_credentials::redact::{self, is_secret_name};

use taskgate_client::transport::http::{Auth, HeaderName, HttpServer, ServerUrl, TokenServer};
use taskgate_credentials::{OAuth, Secret};
use toml::Spanned;

use super::{Surroundings, place, span_of};
use crate::config::fields::Entry;
use crate::config::raw::RawUpstream;
use crate::config::raw::http::{RawHeader, RawOAuth, RawSecret};

/// Headers that say how a message travels, and are set by whoever sends it.
const OURS: &[&str] =
    &["accept", "connection", "content-length", "content-type", "host", "last-event-id", "transfer-encoding"];

/// A server that is a URL.
#[derive(Clone, Debug)]
pub struct UrlServer {
    /// How it is reached.
    pub server: HttpServer,
    /// Whether its URL is not written in the file, since it is a secret.
    pub is_hidden: bool,
}

/// From how many bytes on what has no telling name is taken for a secret.
pub(super) const LONG: usize = 8;

/// Checks the `url` of this upstream and what belongs to it; nothing if it has none that can be used.
pub(super) fn check(
    url: &Spanned<RawSecret>,
    raw: &RawUpstream,
    around: &Surroundings<'_>,
) -> Option<UrlServer> {
    let is_hidden = !matches!(url.get_ref(), RawSecret::Plain(_));
    let server_url = secret(url, "url", around).and_then(|text| {
        let text =
            text.read().map_err(|why| around.problems.add(url.span(), format!("`url`: {why}"))).ok()?;
        let parsed = ServerUrl::parse(&text).inspect(know_query);
        parsed
            .map_err(|why| {
                // It may be a secret, wherever it comes from.
                let help = r#"allowed: the server's MCP endpoint, such as "https://mcp.example.com/mcp""#;
                around.problems.add_with_help(url.span(), format!("`url` {why}"), help);
            })
            .ok()
    });
    let headers = headers(raw.headers.as_ref(), around);
    let auth = auth(raw, server_url.as_ref(), around);
    let plain_http = raw.plain_http.as_ref().is_some_and(|plain| *plain.get_ref());
    if !plain_http && let Some(url_parsed) = &server_url {
        let secret_header = headers.iter().any(|header| header.is_secret);
        let shows = match &auth {
            Auth::None => secret_header.then_some("a header"),
            Auth::Bearer(_) => Some("`bearer`"),
            Auth::OAuth(_) => Some("an access token"),
        };
        let exposed = |span, what: &str| {
            let help = "use https://, or write `plain_http = true` if everybody on the way may read it";
            around.problems.add_with_help(
                span,
                format!("{what} would go over an unencrypted connection"),
                help,
            );
        };
        if let Some(what) = shows.filter(|_| url_parsed.is_exposed()) {
            exposed(url.span(), what);
        }
        if let (Auth::OAuth(tokens), Some(oauth)) = (&auth, &raw.oauth)
            && tokens.url().is_some_and(ServerUrl::is_exposed)
        {
            let span = span_of(&oauth.get_ref().token_url).unwrap_or(oauth.span());
            exposed(span, "what shows who is calling");
        }
    }
    let server = HttpServer {
        headers: headers.into_iter().map(|header| (header.name, header.value)).collect(),
        auth,
        plain_http,
        ..HttpServer::new(server_url?)
    };
    Some(UrlServer { server, is_hidden })
}

struct Header {
    name: HeaderName,
    value: Secret,
    is_secret: bool,
}

fn headers(written: Option<&Spanned<Vec<RawHeader>>>, around: &Surroundings<'_>) -> Vec<Header> {
    let mut headers: Vec<Header> = Vec::new();
    for RawHeader { name, value } in written.into_iter().flat_map(|written| written.get_ref()) {
        let shown = name.get_ref().escape_debug();
        let Ok(parsed) = HeaderName::from_bytes(name.get_ref().as_bytes()) else {
            around
                .problems
                .add(name.span(), format!("`headers`: \"{shown}\" cannot be the name of a header"));
            continue;
        };
        if OURS.contains(&parsed.as_str()) || parsed.as_str().starts_with("mcp-") {
            let what = format!("`headers`: {shown} is set by taskgate itself, differently for each message");
            around.problems.add(name.span(), what);
            continue;
        }
        if headers.iter().any(|header| header.name == parsed) {
            around.problems.add(name.span(), format!("`headers`: {shown} is there twice"));
            continue;
        }
        let is_secret = !matches!(value.get_ref(), RawSecret::Plain(_)) || parsed == "authorization";
        if let Some(value) = header_value(value, "headers", around) {
            if is_secret || is_secret_name(parsed.as_str()) {
                know_text(&value);
            }
            headers.push(Header { name: parsed, value, is_secret });
        }
    }
    headers
}

fn auth(raw: &RawUpstream, url: Option<&ServerUrl>, around: &Surroundings<'_>) -> Auth {
    let header = raw.headers.iter().flat_map(|headers| headers.get_ref()).map(|header| &header.name);
    let header = header.into_iter().find(|name| name.get_ref().eq_ignore_ascii_case("authorization"));
    let bearer = span_of(&raw.bearer).map(|span| ("`bearer`", span));
    let oauth = span_of(&raw.oauth).map(|span| ("[upstream.oauth]", span));
    let header = header.map(|name| ("the header Authorization", name.span()));
    let written: Vec<_> = [header, bearer, oauth].into_iter().flatten().collect();
    if let [(first, _), (second, span), ..] = &written[..] {
        let what = format!("this upstream has both {first} and {second}, which say the same thing twice");
        around.problems.add_with_help(span.clone(), what, "allowed: one of the two");
        return Auth::None;
    }
    match (&raw.bearer, &raw.oauth) {
        (Some(bearer), _) => {
            header_value(bearer, "bearer", around).inspect(know_text).map_or(Auth::None, Auth::Bearer)
        }
        (None, Some(oauth)) => check_oauth(oauth, url, around)
            .map_or(Auth::None, |tokens| Auth::OAuth(std::sync::Arc::new(tokens))),
        (None, None) => Auth::None,
    }
}

fn check_oauth(
    written: &Spanned<RawOAuth>,
    url: Option<&ServerUrl>,
    around: &Surroundings<'_>,
) -> Option<TokenServer> {
    let (span, raw) = (written.span(), written.get_ref());
    let has = |key: &str| raw.written.iter().any(|written| written == key);
    if !has("client_id") {
        let help = "add `client_id = \"…\"`: what the authorization server knows taskgate by";
        around.problems.add_with_help(span.clone(), "[upstream.oauth] has no `client_id`", help);
    }
    if let (true, Some(issuer)) = (has("token_url"), &raw.issuer) {
        let what = "[upstream.oauth] has both `token_url` and `issuer`, by which a token endpoint is found";
        around.problems.add_with_help(issuer.span(), what, "allowed: one of the two");
    }
    if !has("client_secret") && !has("refresh_token") {
        let help = "add `client_secret`, to get tokens in taskgate's own name, or `refresh_token`, to renew somebody's";
        around.problems.add_with_help(span, "[upstream.oauth] has nothing to get a token with", help);
    }
    let address = "the address of a token endpoint, https:// if it is not on this machine";
    let token_url = around.parsed(&raw.token_url, "token_url", address, ServerUrl::parse);
    let address = "the address of an authorization server, https:// if it is not on this machine";
    let issuer = around.parsed(&raw.issuer, "issuer", address, |text| match ServerUrl::parse(text)? {
        url if url.is_exposed() => Err("would be asked over an unencrypted connection".to_owned()),
        _ => Ok(text.to_owned()),
    });
    let words = r#""header", "form""#;
    let in_form = around.parsed(&raw.secret_in, "secret_in", words, |word| match word {
        "header" => Ok(false),
        "form" => Ok(true),
        _ => Err("is none of these words".to_owned()),
    });
    let optional = |entry: &Entry<RawSecret>, key| {
        entry.as_ref().and_then(|entry| secret(entry, key, around)).inspect(know_text)
    };
    let scopes = raw.scopes.as_ref().map(|scopes| {
        for scope in scopes.get_ref() {
            if scope.get_ref().is_empty() || scope.get_ref().contains(char::is_whitespace) {
                around.problems.add_with_help(
                    scope.span(),
                    format!("`scopes`: \"{}\" is no scope", scope.get_ref().escape_debug()),
                    "write each scope as a string of its own",
                );
            }
        }
        scopes.get_ref().iter().map(|scope| scope.get_ref().as_str()).collect::<Vec<_>>().join(" ")
    });
    // "MUST be sent regardless of whether authorization servers support it" (MCP, authorization). Some refuse it, so it can be
    // left out by an empty text.
    let resource = match &raw.resource {
        Some(resource) => Some(resource.get_ref().clone()),
        // Where the token endpoint is found, so is that.
        None => url.filter(|_| has("token_url")).map(ServerUrl::resource),
    };
    let oauth = OAuth {
        client_id: raw.client_id.as_ref()?.get_ref().clone(),
        client_secret: optional(&raw.client_secret, "client_secret"),
        secret_in_form: in_form.unwrap_or_default(),
        refresh_token: optional(&raw.refresh_token, "refresh_token"),
        scope: scopes.filter(|scopes| !scopes.is_empty()),
        resource,
        audience: None,
    };
    match token_url {
        Some(token_url) => Some(TokenServer::new(token_url, oauth)),
        // One that is there but wrong has been noted already.
        None if has("token_url") => None,
        None => Some(TokenServer::found_by(url?.clone(), issuer, oauth).within(around.reach.clone())),
    }
}

/// A secret that a header can carry.
fn header_value(entry: &Spanned<RawSecret>, key: &str, around: &Surroundings<'_>) -> Option<Secret> {
    let secret = secret(entry, key, around)?;
    match secret.header("") {
        Ok(_) => Some(secret),
        Err(why) => {
            around.problems.add(entry.span(), format!("`{key}`: {why}"));
            None
        }
    }
}

/// Keeps a secret that is written out from being shown. Others are known as soon as they are read.
fn know_text(secret: &Secret) {
    if let Secret::Text(text) = secret {
        redact::know(text);
        // Of a header with a scheme, what follows it is the secret.
        text.split_whitespace().skip(1).for_each(redact::know);
    }
}

/// What stands in a URL's query is a secret more often than not.
fn know_query(url: &ServerUrl) {
    for (name, value) in url.as_url().query_pairs() {
        if is_secret_name(&name) || value.len() >= LONG {
            redact::know(&value);
        }
    }
}

/// A secret that is there now.
fn secret(entry: &Spanned<RawSecret>, key: &str, around: &Surroundings<'_>) -> Option<Secret> {
    let secret = place_of(entry, key, around)?;
    if let (RawSecret::FromFile(path), Err(why)) = (entry.get_ref(), secret.read()) {
        around.problems.add(path.span(), format!("`{key}`: {why}"));
        return None;
    }
    Some(secret)
}

/// A secret, whose file may still come. Nothing of it is ever shown.
pub(super) fn place_of(entry: &Spanned<RawSecret>, key: &str, around: &Surroundings<'_>) -> Option<Secret> {
    match entry.get_ref() {
        RawSecret::Misread => None,
        RawSecret::Plain(text) if text.is_empty() => {
            around.problems.add(entry.span(), format!("`{key}` is empty"));
            None
        }
        RawSecret::Plain(text) => Some(Secret::Text(text.clone())),
        RawSecret::FromEnv(name) => match (around.env)(name.get_ref()).filter(|value| !value.is_empty()) {
            Some(value) => {
                redact::know(&value);
                Some(Secret::Text(value.trim_end_matches(['\r', '\n']).to_owned()))
            }
            None => {
                let what = format!("the environment variable {} is not set", name.get_ref().escape_debug());
                let help = format!("set it before taskgate starts; it is the `{key}` of this upstream");
                around.problems.add_with_help(name.span(), what, help);
                None
            }
        },
        RawSecret::FromFile(path) => {
            let whole = |text: &str| place::whole(Path::new(text), around);
            around.parsed_at(path, key, "the path of a file with the secret in it", whole).map(Secret::File)
        }
    }
}

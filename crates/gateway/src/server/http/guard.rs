//! Origin and Host, before anything else is looked at: protection against DNS rebinding.

use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use taskgate_wire::{ErrorCode, RpcError};

use crate::audit::{Line, Reason};
use crate::gateway::Gateway;

/// Refuses requests that come from a foreign web page or address a foreign name.
#[expect(clippy::result_large_err, reason = "a refusal is the answer itself")]
pub fn check(gateway: &Gateway, headers: &HeaderMap) -> Result<(), Response> {
    let settings = &gateway.0.settings;
    // The setting has IPv6 addresses in brackets, as URLs have them.
    let is_listed = |listed: &String, host: &str| listed.trim_matches(['[', ']']).eq_ignore_ascii_case(host);
    let allowed =
        |host: &str| is_loopback(host) || settings.allowed_hosts.iter().any(|listed| is_listed(listed, host));
    let mut values = headers.get_all(header::HOST).iter();
    if let Some(host) = values.next() {
        let name = host.to_str().ok().and_then(host_name);
        if values.next().is_some() || !name.is_some_and(allowed) {
            return Err(refuse(gateway, "Host", "allowed_hosts", host.to_str().unwrap_or("?")));
        }
    }
    // No browser sends several; if somebody does, none of them may be foreign.
    for origin in headers.get_all(header::ORIGIN) {
        let text = origin.to_str().unwrap_or("?");
        let listed = settings.allowed_origins.iter().any(|allowed| allowed.eq_ignore_ascii_case(text));
        let local = text.split_once("://").and_then(|(_, host)| host_name(host)).is_some_and(is_loopback);
        if !listed && !local {
            return Err(refuse(gateway, "Origin", "allowed_origins", text));
        }
    }
    Ok(())
}

fn refuse(gateway: &Gateway, header: &str, setting: &'static str, value: &str) -> Response {
    gateway.turned_away(Reason::Forbidden, |line| Line { why: Some(setting.into()), ..line });
    let value: String = value.chars().take(120).collect();
    let message = format!(
        "Forbidden: {header} {value:?} is not allowed here; add it to {setting} in the configuration"
    );
    super::error(StatusCode::FORBIDDEN, None, &RpcError::new(ErrorCode::InvalidRequest, message))
}

/// The host without its port.
fn host_name(authority: &str) -> Option<&str> {
    let (host, after) = match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    let port = if after.is_empty() { "" } else { after.strip_prefix(':')? };
    (!host.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())).then_some(host)
}

fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_names_are_loopback() {
        for (authority, local) in [
            ("localhost", true),
            ("LOCALHOST:80", true),
            ("127.0.0.1:8000", true),
            ("[::1]:8000", true),
            ("localhost.evil.example", false),
            ("127.0.0.1.evil.example:80", false),
            ("evil.example:80", false),
            ("localhost:80@evil.example", false),
            ("[::1]:80@evil.example", false),
            ("[::1]80", false),
            ("[::1]", true),
            ("[]", false),
            ("", false),
            (":80", false),
            ("0.0.0.0", false),
        ] {
            assert_eq!(host_name(authority).is_some_and(is_loopback), local, "{authority}");
        }
    }
}

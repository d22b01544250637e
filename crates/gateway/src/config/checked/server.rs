//! The server's own settings: where it listens, whom it lets in, how patient it is.

use std::net::SocketAddr;

use taskgate_engine::NodeSettings;
use toml::Spanned;

use super::{DEFAULT_LISTEN, Surroundings, span_of};
use crate::config::fields::Entry;
use crate::config::limits::{self, DurationRange, SizeRange};
use crate::config::raw::RawConfig;
use crate::policy::{Bind, Settings, StreamSettings, TaskQuestions};

/// The longest server name, in bytes.
const LONGEST_NAME: usize = 128;

/// Whether one known user can be assumed behind an address.
///
/// # Errors
///
/// Why not: whoever can connect would be that user and see all of its tasks.
pub fn check_single_user(listen: SocketAddr) -> Result<(), String> {
    if listen.ip().to_canonical().is_loopback() {
        return Ok(());
    }
    Err(format!("a single user needs a loopback address, and {listen} can be reached from other machines"))
}

/// The address to listen on.
pub(super) fn check_listen(raw: &RawConfig, around: &Surroundings<'_>) -> SocketAddr {
    let allowed = r#"an IP address and a port, such as "127.0.0.1:8000" or "[::1]:8000""#;
    let parse = |text: &str| text.parse().map_err(|_| "is no address to listen on".to_owned());
    around.parsed(&raw.listen, "listen", allowed, parse).unwrap_or(DEFAULT_LISTEN)
}

/// All settings but the address.
pub(super) fn check(raw: &RawConfig, listen: SocketAddr, around: &Surroundings<'_>) -> Settings {
    let default = Settings::default();
    let duration = |entry: &Entry<String>, key, range: DurationRange| {
        around.parsed(entry, key, &range.allowed(), |text| range.parse(text))
    };
    let list =
        |entry: &Entry<Vec<Spanned<String>>>, key, allowed, check: fn(&str) -> Result<String, String>| {
            let items = entry.iter().flat_map(|list| list.get_ref());
            items.filter_map(|item| around.parsed_at(item, key, allowed, check)).collect()
        };
    let single_user = raw.single_user.as_ref().map_or(default.single_user, |written| *written.get_ref());
    if single_user && let Err(why) = check_single_user(listen) {
        let span = span_of(&raw.single_user).or(span_of(&raw.listen)).unwrap_or_default();
        around.problems.add_with_help(span, why, r#"allowed: a `listen` such as "127.0.0.1:8000""#);
    }
    let bind = around.parsed(&raw.bind, "bind", r#""owner", "session""#, |word| match word {
        "owner" => Ok(Bind::Owner),
        "session" => Ok(Bind::Session),
        _ => Err("is none of these words".to_owned()),
    });
    if single_user && bind == Some(Bind::Session) {
        let what = "`bind` is for callers that are not known, and with `single_user` every caller is";
        around.problems.add_with_help(span_of(&raw.bind).unwrap_or_default(), what, "leave one of them out");
    }
    let name = format!("1 to {LONGEST_NAME} bytes of plain text");
    let size = |entry: &Entry<String>, key, range: SizeRange| {
        around.parsed(entry, key, &range.allowed(), |text| range.parse(text))
    };
    let max_message = size(&raw.max_message, "max_message", limits::MAX_MESSAGE);
    let path = r#"an absolute path of letters, digits, "/", "-", "_", "." and "~", such as "/mcp""#;
    let hosts = r#"a host name or address without port, such as "mcp.example.org" or "[fd00::1]""#;
    let origins = r#"an origin as browsers send it, such as "https://app.example" or "http://10.0.0.1:3000""#;
    let endpoint = around.parsed(&raw.path, "path", path, parse_path).unwrap_or(default.path);
    Settings {
        // Whoever serves knows whether the file will be read again.
        reloads: false,
        server_name: around
            .parsed(&raw.server_name, "server_name", &name, parse_server_name)
            .unwrap_or(default.server_name),
        public_url: around.parsed(
            &raw.public_url,
            "public_url",
            r#"an address that begins with http:// or https://, such as "https://mcp.example.org""#,
            parse_public_url,
        ),
        auth: super::auth::check(raw, &endpoint, around),
        path: endpoint,
        allowed_hosts: list(&raw.allowed_hosts, "allowed_hosts", hosts, parse_host),
        allowed_origins: list(&raw.allowed_origins, "allowed_origins", origins, parse_origin),
        single_user,
        bind: bind.unwrap_or_default(),
        max_message: max_message.unwrap_or(default.max_message),
        keep_alive: duration(&raw.keep_alive, "keep_alive", limits::KEEP_ALIVE).unwrap_or(default.keep_alive),
        session_idle: duration(&raw.session_idle, "session_idle", limits::SESSION_IDLE)
            .unwrap_or(default.session_idle),
        max_sessions: around
            .counted(&raw.max_sessions, "max_sessions", limits::MAX_SESSIONS)
            .unwrap_or(default.max_sessions),
        owner_session_idle: duration(
            &raw.owner_session_idle,
            "owner_session_idle",
            limits::OWNER_SESSION_IDLE,
        )
        .unwrap_or(default.owner_session_idle),
        max_owner_sessions: around
            .counted(&raw.max_owner_sessions, "max_owner_sessions", limits::MAX_OWNER_SESSIONS)
            .unwrap_or(default.max_owner_sessions),
        session_requests: around
            .counted(&raw.session_requests, "session_requests", limits::SESSION_REQUESTS)
            .unwrap_or(default.session_requests),
        streams: check_streams(raw, around),
        connections: super::connections::check(&raw.connections, around),
        audit: super::audit::check(raw.audit.as_ref(), around),
        tls: super::connections::check_tls(raw.tls.as_ref(), around),
        hosts: super::hosts::check(&raw.hosts, around),
        limits: super::limits::check(&raw.limits, around),
        drain_grace: duration(&raw.drain_grace, "drain_grace", limits::DRAIN_GRACE)
            .unwrap_or(default.drain_grace),
        node: check_node(raw, around),
    }
}

fn parse_public_url(text: &str) -> Result<String, String> {
    let uri = text.parse::<axum::http::Uri>().map_err(|_| "is no address".to_owned())?;
    match (uri.scheme_str(), uri.authority(), uri.query()) {
        (Some("http" | "https"), Some(_), None) => Ok(text.to_owned()),
        (Some("http" | "https"), Some(_), Some(_)) => Err("has a query".to_owned()),
        _ => Err("begins with neither http:// nor https://".to_owned()),
    }
}

/// What this node keeps, and how it lives among others.
fn check_node(raw: &RawConfig, around: &Surroundings<'_>) -> NodeSettings {
    let default = NodeSettings::default();
    let duration = |entry: &Entry<String>, key, range: DurationRange| {
        around.parsed(entry, key, &range.allowed(), |text| range.parse(text))
    };
    let name = format!("1 to {LONGEST_NAME} bytes of plain text");
    let lease = duration(&raw.lease, "lease", limits::LEASE).unwrap_or(default.lease);
    // Whoever sets the lease only gets heartbeats that fit.
    let heartbeat = duration(&raw.heartbeat, "heartbeat", limits::HEARTBEAT).unwrap_or(lease / 3);
    if heartbeat > lease / 2 {
        let span = span_of(&raw.heartbeat).or(span_of(&raw.lease)).unwrap_or_default();
        let [lease, heartbeat] = [lease, heartbeat].map(crate::config::format_duration);
        let what = format!(
            "`heartbeat` ({heartbeat}) is longer than half of `lease` ({lease}): one that fails would cost the work"
        );
        around.problems.add_with_help(span, what, "allowed: a `heartbeat` up to half of `lease`");
    }
    NodeSettings {
        name: around.parsed(&raw.node_name, "node_name", &name, parse_server_name).unwrap_or(default.name),
        lease,
        heartbeat,
        poll: duration(&raw.store_poll, "store_poll", limits::STORE_POLL).unwrap_or(default.poll),
        max_result: around
            .parsed(&raw.max_result, "max_result", &limits::MAX_RESULT.allowed(), |text| {
                limits::MAX_RESULT.parse(text)
            })
            .unwrap_or(default.max_result),
    }
}

/// How streams of sessions behave.
fn check_streams(raw: &RawConfig, around: &Surroundings<'_>) -> StreamSettings {
    let default = StreamSettings::default();
    let size = |entry: &Entry<String>, key| {
        let range = limits::REPLAY_SIZE;
        around.parsed(entry, key, &range.allowed(), |text| range.parse(text))
    };
    let duration = |entry: &Entry<String>, key, range: DurationRange| {
        around.parsed(entry, key, &range.allowed(), |text| range.parse(text))
    };
    let off_or = format!("\"off\", or {}", limits::STREAM_CLOSE_AFTER.allowed());
    let close_after =
        around.parsed(&raw.stream_close_after, "stream_close_after", &off_or, |text| match text {
            "off" => Ok(None),
            text => limits::STREAM_CLOSE_AFTER.parse(text).map(Some),
        });
    StreamSettings {
        replay_events: around
            .counted(&raw.replay_events, "replay_events", limits::REPLAY_EVENTS)
            .unwrap_or(default.replay_events),
        replay_size: size(&raw.replay_size, "replay_size").unwrap_or(default.replay_size),
        session_replay: size(&raw.session_replay, "session_replay").unwrap_or(default.session_replay),
        replay_for: duration(&raw.replay_for, "replay_for", limits::REPLAY_FOR).unwrap_or(default.replay_for),
        close_after: close_after.unwrap_or(default.close_after),
        retry: duration(&raw.stream_retry, "stream_retry", limits::STREAM_RETRY).unwrap_or(default.retry),
        task_questions: around
            .parsed(
                &raw.stream_task_questions,
                "stream_task_questions",
                r#""result", "get""#,
                parse_task_questions,
            )
            .unwrap_or(default.task_questions),
    }
}

fn parse_task_questions(word: &str) -> Result<TaskQuestions, String> {
    match word {
        "result" => Ok(TaskQuestions::Result),
        "get" => Ok(TaskQuestions::Get),
        _ => Err("is none of these words".to_owned()),
    }
}

fn parse_server_name(text: &str) -> Result<String, String> {
    match text {
        _ if text.trim().is_empty() => Err("is empty".to_owned()),
        _ if text.len() > LONGEST_NAME => Err("is too long".to_owned()),
        _ if text.chars().any(char::is_control) => Err("has a control character".to_owned()),
        _ => Ok(text.to_owned()),
    }
}

/// The characters are those that mean themselves both in a URL and in the router's patterns.
fn parse_path(text: &str) -> Result<String, String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.~".contains(&byte);
    match text {
        _ if !text.starts_with('/') => Err("does not begin with \"/\"".to_owned()),
        _ if !text.bytes().all(plain) => Err("has a character that cannot be used".to_owned()),
        _ if text.contains("//") => Err("has an empty part".to_owned()),
        _ if text.len() > 1 && text.ends_with('/') => Err("ends with \"/\"".to_owned()),
        _ => Ok(text.to_owned()),
    }
}

fn parse_host(text: &str) -> Result<String, String> {
    if let Some(address) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        let address = address.parse::<std::net::Ipv6Addr>();
        return address
            .map(|_| text.to_owned())
            .map_err(|_| "has no IPv6 address in its brackets".to_owned());
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    match text {
        "" => Err("is empty".to_owned()),
        "*" => Err("would allow every host, which is what this list protects against".to_owned()),
        _ if text.contains("://") || text.contains('/') => Err("is a URL, not a host".to_owned()),
        _ if text.contains(':') => Err("has a port or an IPv6 address without brackets".to_owned()),
        _ if !text.bytes().all(plain) => Err("has a character that no host has".to_owned()),
        _ => Ok(text.to_ascii_lowercase()),
    }
}

fn parse_origin(text: &str) -> Result<String, String> {
    let Some((scheme, rest)) = text.split_once("://") else {
        return Err("has no scheme such as \"https://\"".to_owned());
    };
    if scheme.is_empty() || !scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
    {
        return Err("has no valid scheme".to_owned());
    }
    if rest.contains(['/', '?', '#', '@']) {
        return Err("has more than scheme, host and port".to_owned());
    }
    let (host, port) = match rest.rsplit_once(':') {
        // The last colon of a bare IPv6 address stands inside its brackets.
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (rest, None),
    };
    if port.is_some_and(|port| port.parse::<u16>().is_err()) {
        return Err("has no valid port".to_owned());
    }
    parse_host(host)?;
    // Browsers send scheme and host in lower case, so that is what will be compared.
    Ok(text.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_addresses_have_a_single_user() {
        for address in ["127.0.0.1:1", "127.8.8.8:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            assert_eq!(check_single_user(address.parse().expect("address")), Ok(()), "{address}");
        }
        for address in ["0.0.0.0:1", "10.0.0.1:1", "[::]:1", "[fd00::1]:1"] {
            assert!(check_single_user(address.parse().expect("address")).is_err(), "{address}");
        }
    }

    #[test]
    fn a_path_means_itself() {
        for path in ["/", "/mcp", "/v1/mcp.json", "/~me"] {
            assert_eq!(parse_path(path), Ok(path.to_owned()));
        }
        for path in ["", "mcp", "/mcp/", "/a//b", "/{id}", "/a b", "/a?b", "/*all"] {
            assert!(parse_path(path).is_err(), "{path}");
        }
    }

    #[test]
    fn hosts_have_no_port_and_origins_have_no_path() {
        for host in ["mcp.example.org", "10.0.0.1", "[fd00::1]"] {
            assert_eq!(parse_host(host), Ok(host.to_owned()));
        }
        for host in ["", "*", "a:80", "http://a", "a/b", "fd00::1", "[nothing]", "a b"] {
            assert!(parse_host(host).is_err(), "{host}");
        }
        assert_eq!(parse_origin("HTTPS://App.example"), Ok("https://app.example".to_owned()));
        for origin in ["http://10.0.0.1:3000", "http://[::1]:3000", "http://[::1]", "app+x://host"] {
            assert_eq!(parse_origin(origin), Ok(origin.to_owned()));
        }
        for origin in
            ["", "*", "null", "app.example", "https://", "https://a/", "https://a:b", "://a", "https://*"]
        {
            assert!(parse_origin(origin).is_err(), "{origin}");
        }
    }
}

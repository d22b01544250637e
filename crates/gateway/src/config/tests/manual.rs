//! What the manual says of the configuration is what the program has.

use super::*;

#[test]
fn the_manual_names_every_key_of_every_section() {
    let manual = fs::read_to_string(repository().join("docs/config.md")).expect("the manual");
    for section in [
        &TOP,
        &CONNECTIONS,
        &TLS,
        &HOSTS,
        &LIMITS,
        &METRICS,
        &NETWORK,
        &AUDIT,
        &ENCRYPTION,
        &KEY,
        &UPSTREAM,
        &OAUTH,
        &SECRET,
        &RUN,
        &DEFAULTS,
        &UPSTREAM_DEFAULTS,
        &TOOL,
        &VARIABLE,
    ] {
        for key in section.keys {
            assert!(
                manual.contains(&format!("`{key}`")),
                "docs/config.md does not explain `{key}` of {}",
                section.name
            );
        }
    }
}

#[test]
fn the_manual_names_every_limit() {
    let manual = fs::read_to_string(repository().join("docs/config.md")).expect("the manual");
    let row = |key: &str| {
        let start = format!("| `{key}` |");
        manual.lines().find(|line| line.starts_with(&start)).unwrap_or_else(|| panic!("no row for `{key}`"))
    };
    for (key, range) in [
        ("inline_for", limits::INLINE_FOR),
        ("budget", limits::HOST_BUDGET),
        ("run_limit", limits::RUN_LIMIT),
        ("idle_limit", limits::IDLE_LIMIT),
        ("retention", limits::RETENTION),
        ("max_retention", limits::RETENTION),
        ("poll_interval", limits::POLL_INTERVAL),
        ("keep_alive", limits::KEEP_ALIVE),
        ("session_idle", limits::SESSION_IDLE),
        ("owner_session_idle", limits::OWNER_SESSION_IDLE),
        ("replay_for", limits::REPLAY_FOR),
        ("stream_close_after", limits::STREAM_CLOSE_AFTER),
        ("stream_retry", limits::STREAM_RETRY),
        ("drain_grace", limits::DRAIN_GRACE),
        ("stop_grace", limits::STOP_GRACE),
        ("lease", limits::LEASE),
        ("heartbeat", limits::HEARTBEAT),
        ("store_poll", limits::STORE_POLL),
        ("head_timeout", limits::HEAD_TIMEOUT),
        ("body_timeout", limits::BODY_TIMEOUT),
        ("unknown_ids_delay", limits::UNKNOWN_IDS_DELAY),
    ] {
        let range = format!("{} to {}", format_duration(range.least), format_duration(range.most));
        assert!(row(key).contains(&range), "{key}: {range}");
    }
    for (key, range) in [
        ("max_message", limits::MAX_MESSAGE),
        ("max_head", limits::MAX_HEAD),
        ("max_result", limits::MAX_RESULT),
        ("output_limit", limits::OUTPUT_LIMIT),
        ("replay_size", limits::REPLAY_SIZE),
        ("session_replay", limits::REPLAY_SIZE),
        ("stored_size", limits::STORED_SIZE),
        ("backlog", limits::BACKLOG),
    ] {
        let range = format!("{} to {}", format_size(range.least), format_size(range.most));
        assert!(row(key).contains(&range), "{key}: {range}");
    }
    for (key, range) in [
        ("max", limits::MAX_CONNECTIONS),
        ("max_sessions", limits::MAX_SESSIONS),
        ("max_owner_sessions", limits::MAX_OWNER_SESSIONS),
        ("session_requests", limits::SESSION_REQUESTS),
        ("replay_events", limits::REPLAY_EVENTS),
        ("max_attempts", limits::MAX_ATTEMPTS),
        ("queue", limits::QUEUE),
    ] {
        let range = format!("{} to {}", range.least, range.most);
        assert!(row(key).contains(&range), "{key}: {range}");
    }
}

/// The policy's defaults stand in the manual as they are in the program.
#[test]
fn the_manual_names_every_default() {
    let manual = fs::read_to_string(repository().join("docs/config.md")).expect("the manual");
    let run = valid("[[upstream]]\nname = \"a\"\nrun = { tool = \"t\", command = [\"c\"] }").to_toml();
    let run = run.lines().filter(|line| line.starts_with("output_limit") || line.starts_with("stop_grace"));
    assert_eq!(run.clone().count(), 2);
    let least = valid(LEAST).to_toml();
    for line in least.lines().take_while(|line| !line.starts_with("[[")).chain(run) {
        let Some((key, value)) = line.split_once(" = ") else { continue };
        let row = manual.lines().find(|row| row.starts_with(&format!("| `{key}` |")));
        assert!(row.is_some_and(|row| row.contains(&format!("`{value}`"))), "{line}");
    }
}

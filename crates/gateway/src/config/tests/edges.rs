use super::*;

#[test]
fn every_edge_of_a_range_is_allowed_and_nothing_beyond() {
    let refused = |line: &str| parse(&format!("{line}\n{LEAST}")).is_err();
    for (line, is_refused) in [
        ("max_message = \"1KiB\"", false),
        ("max_message = \"1023B\"", true),
        ("max_message = \"1GiB\"", false),
        ("max_message = \"1073741825B\"", true),
        ("max_result = \"1KiB\"", false),
        ("max_result = \"1023B\"", true),
        ("max_result = \"1GiB\"", false),
        ("max_result = \"1073741825B\"", true),
        ("max_sessions = 0", true),
        ("max_sessions = 1", false),
        ("max_sessions = 1_000_000", false),
        ("max_sessions = 1_000_001", true),
        ("session_requests = -1", true),
        ("replay_events = 99999999999999999999", true),
        ("replay_events = 0x10", false),
        ("replay_size = \"1023B\"", true),
        ("connections.max = 0", true),
        ("connections.max = 1", false),
        ("connections.head_timeout = \"999ms\"", true),
        ("connections.head_timeout = \"1h\"", false),
        ("connections.body_timeout = \"999ms\"", true),
        ("connections.max_head = \"8191B\"", true),
        ("connections.max_head = \"256KiB\"", false),
        ("connections.most = 1", true),
        ("tls = { certificate = \"a\", key = \"b\" }", false),
        ("tls = { certificate = \"a\" }", true),
        ("tls = { key = \"a\" }", true),
        ("tls = { certificate = \"\", key = \"b\" }", true),
        ("bind = \"owner\"", false),
        ("bind = \"session\"", false),
        ("bind = \"nobody\"", true),
        ("bind = \"session\"\nsingle_user = true", true),
        ("limits.open_tasks = \"off\"", false),
        ("limits.open_tasks = \"many\"", true),
        ("limits.open_tasks = 0", true),
        ("limits.owner_open_tasks = 1", false),
        ("limits.owner_open_tasks = 100000001", true),
        ("limits.owner_open_tasks = true", true),
        ("limits.queue = 0", false),
        ("limits.queue = -1", true),
        ("limits.queue = \"off\"", true),
        ("limits.stored_size = \"off\"", false),
        ("limits.stored_size = \"2GiB\"", false),
        ("limits.owner_stored_size = \"1023B\"", true),
        ("limits.backlog = \"1KiB\"", false),
        ("limits.backlog = \"off\"", true),
        ("limits.unknown_ids_delay = \"61s\"", true),
        ("limits.open = 1", true),
        ("metrics.listen = \"127.0.0.1:9464\"", false),
        ("metrics.listen = \"9464\"", true),
        ("metrics.path = \"/\"", true),
        ("audit.file = \"a\"", false),
        ("audit = { stream = \"stdout\", on_failure = \"refuse\" }", false),
        ("audit.stream = \"stdin\"", true),
        ("audit.file = \"\"", true),
        ("audit.on_failure = \"log\"", true),
        ("audit = { file = \"a\", stream = \"stderr\" }", true),
        ("audit = { file = \"a\", on_failure = \"stop\" }", true),
        ("hosts.budget = \"off\"", false),
        ("hosts.budget = \"10ms\"", false),
        ("hosts.budget = \"9ms\"", true),
        ("hosts.budget = \"1h1ms\"", true),
        ("hosts.clients = { \"Claude*\" = \"off\", cursor = \"50s\" }", false),
        ("hosts.clients = { cursor = 50 }", true),
        ("hosts.clients = { \"\" = \"50s\" }", true),
        ("hosts.budgets = \"1s\"", true),
        ("stream_close_after = \"off\"", false),
        ("stream_close_after = \"99ms\"", true),
        ("stream_retry = \"0s\"", false),
        ("stream_task_questions = \"result\"", false),
        ("stream_task_questions = \"get\"", false),
        ("stream_task_questions = \"list\"", true),
        ("defaults.secret_arguments = [\"a\", \"b.c\"]", false),
        ("defaults.secret_arguments = [\"\"]", true),
        ("defaults.secret_arguments = [\"a..b\"]", true),
        ("defaults.secret_arguments = \"a\"", true),
        ("defaults.inline_for = \"0s\"", false),
        ("defaults.inline_for = \"1h\"", false),
        ("defaults.inline_for = \"1h1ms\"", true),
        ("defaults.poll_interval = \"10ms\"", false),
        ("defaults.poll_interval = \"9ms\"", true),
        ("defaults.run_limit = \"0s\"", true),
        ("defaults.run_limit = \"365d\"", false),
        ("defaults.run_limit = \"366d\"", true),
        ("defaults.retention = \"999ms\"", true),
        ("defaults.retention = \"8d\"", true),
        ("defaults = { retention = \"8d\", max_retention = \"8d\" }", false),
        ("drain_grace = \"0s\"", false),
        ("lease = \"999ms\"", true),
        ("lease = \"1s\"", false),
        ("lease = \"10s\"\nheartbeat = \"5s\"", false),
        ("lease = \"10s\"\nheartbeat = \"5001ms\"", true),
        ("heartbeat = \"99ms\"", true),
        ("store_poll = \"99ms\"", true),
        ("defaults.max_attempts = 0", true),
        ("defaults.max_attempts = 1000", false),
    ] {
        assert_eq!(refused(line), is_refused, "{line}");
    }
}

#[test]
fn what_may_be_reached_is_networks_addresses_and_hosts() {
    let allowed = r#"["10.0.0.0/8", "fd00::1", "Issuer.internal"]"#;
    let config = valid(&format!("network.allow_private = {allowed}\n{LEAST}"));
    let shown: Vec<String> = config.reach.allowed().iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["10.0.0.0/8", "fd00::1", "issuer.internal"]);
    assert_eq!(valid(&config.to_toml()).reach, config.reach);
    for wrong in ["10.0.0.1/8", "https://a", "a:80", "*.a", "", "10.0.0.0/33"] {
        let told = problems(&format!("network.allow_private = [{wrong:?}]\n{LEAST}"));
        assert_eq!(told.len(), 1, "{wrong}: {told:?}");
        assert!(told[0].starts_with(&format!("`allow_private`: {wrong:?} ")), "{told:?}");
    }
    assert_eq!(problems(&format!("network.allow = []\n{LEAST}")), ["unknown key `allow` in [network]"]);
}

/// It reaches everybody who asks what others name.
#[test]
fn what_may_be_reached_is_known_to_whoever_asks() {
    let config = valid(
        r#"
        network.allow_private = ["10.0.0.0/8"]
        auth = { resource = "https://a.example", issuer = [{ issuer = "https://b.example" }] }
        [[upstream]]
        name = "url"
        url = "https://c.example/mcp"
        oauth = { client_id = "me", client_secret = "secret" }
        "#,
    );
    assert_eq!(config.settings.auth.as_ref().map(|auth| &auth.reach), Some(&config.reach));
    let without = valid(&config.to_toml().replace("allow_private = [\"10.0.0.0/8\"]", ""));
    let UpstreamServer::Url(url) = &config.upstreams[0].server else { panic!("no URL") };
    let UpstreamServer::Url(other) = &without.upstreams[0].server else { panic!("no URL") };
    assert!(url.server.url == other.server.url && url.server.auth != other.server.auth);
}

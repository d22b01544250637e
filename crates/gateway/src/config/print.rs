//! A valid configuration written out in full: every default filled in, everything inherited spelled out.

use std::fmt::{self, Display, Write};
use std::path::Path;

use taskgate_client::transport::http::{Auth, TokenServer};
use taskgate_credentials::{Secret, Source};
use taskgate_task::WorkClass;
use toml::Value;

mod auth;
mod rules;

use auth::write_auth;
use rules::write_rules;

use super::checked::{Config, UpstreamConfig, UpstreamServer, UrlServer};
use super::duration::{format_duration, format_size};
use crate::audit::{AuditPlace, AuditSettings, OnAuditFailure};
use crate::bounds::LimitSettings;
use crate::policy::{
    Bind, CheckOutput, Speak, StorePlace, TaskMode, TaskQuestions, ToolPolicy, UpstreamSessions,
    UpstreamTasks,
};
use crate::upstream::{CommandTool, Group, JobTool, Output, Stdin, ToolSchema};

/// What is shown instead of the value of a variable, which may be a secret.
const HIDDEN: &str = "(hidden)";

impl Config {
    /// The configuration as a file that says everything and means the same, except that the values of variables for
    /// child processes are hidden.
    pub fn to_toml(&self) -> String {
        let mut out = String::new();
        // Writing to a string cannot fail.
        let _ = self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) -> fmt::Result {
        let settings = &self.settings;
        set(out, "listen", text(self.listen))?;
        set(out, "path", text(&settings.path))?;
        match &self.store {
            Some(StorePlace::Sqlite(path)) => set(out, "store", text(format!("sqlite:{}", path.display())))?,
            Some(StorePlace::Postgres(url)) => set(out, "store", text(url))?,
            Some(StorePlace::Memory) => set(out, "store", text("memory"))?,
            None => {}
        }
        set(out, "server_name", text(&settings.server_name))?;
        if let Some(public_url) = &settings.public_url {
            set(out, "public_url", text(public_url))?;
        }
        set(out, "single_user", settings.single_user)?;
        let bind = match settings.bind {
            Bind::Owner => "owner",
            Bind::Session => "session",
        };
        set(out, "bind", text(bind))?;
        set(out, "allowed_hosts", list(&settings.allowed_hosts))?;
        set(out, "allowed_origins", list(&settings.allowed_origins))?;
        set(out, "max_message", text(format_size(settings.max_message)))?;
        set(out, "max_result", text(format_size(settings.node.max_result)))?;
        set(out, "keep_alive", text(format_duration(settings.keep_alive)))?;
        set(out, "session_idle", text(format_duration(settings.session_idle)))?;
        let streams = &settings.streams;
        set(out, "max_sessions", settings.max_sessions)?;
        set(out, "owner_session_idle", text(format_duration(settings.owner_session_idle)))?;
        set(out, "max_owner_sessions", settings.max_owner_sessions)?;
        set(out, "session_requests", settings.session_requests)?;
        set(out, "session_replay", text(format_size(streams.session_replay)))?;
        set(out, "replay_events", streams.replay_events)?;
        set(out, "replay_size", text(format_size(streams.replay_size)))?;
        set(out, "replay_for", text(format_duration(streams.replay_for)))?;
        let close_after = streams.close_after.map_or_else(|| "off".to_owned(), format_duration);
        set(out, "stream_close_after", text(close_after))?;
        set(out, "stream_retry", text(format_duration(streams.retry)))?;
        let questions = match streams.task_questions {
            TaskQuestions::Result => "result",
            TaskQuestions::Get => "get",
        };
        set(out, "stream_task_questions", text(questions))?;
        set(out, "drain_grace", text(format_duration(settings.drain_grace)))?;
        set(out, "node_name", text(&settings.node.name))?;
        set(out, "lease", text(format_duration(settings.node.lease)))?;
        set(out, "heartbeat", text(format_duration(settings.node.heartbeat)))?;
        set(out, "store_poll", text(format_duration(settings.node.poll)))?;
        self.write_connections(out)?;
        if let Some(auth) = &settings.auth {
            write_auth(out, auth)?;
        }
        if let Some(rules) = &self.rules {
            write_rules(out, rules)?;
        }
        self.write_hosts(out)?;
        write_limits(out, &self.settings.limits)?;
        if !self.encryption.is_empty() {
            writeln!(out, "\n[encryption]")?;
            set(
                out,
                "keys",
                format!("[{}]", self.encryption.iter().map(key).collect::<Vec<_>>().join(", ")),
            )?;
        }
        if let Some(listen) = self.metrics {
            writeln!(out, "\n[metrics]")?;
            set(out, "listen", text(listen))?;
        }
        writeln!(out, "\n[network]")?;
        let allowed: Vec<String> = self.reach.allowed().iter().map(ToString::to_string).collect();
        set(out, "allow_private", list(&allowed))?;
        self.write_audit(out)?;
        writeln!(out, "\n[defaults]")?;
        write_policy(out, &self.defaults)?;
        write_after_crash(out, &self.defaults)?;
        self.upstreams.iter().try_for_each(|upstream| write_upstream(out, upstream))
    }

    fn write_connections(&self, out: &mut String) -> fmt::Result {
        let connections = &self.settings.connections;
        writeln!(out, "\n[connections]")?;
        set(out, "max", connections.max)?;
        set(out, "head_timeout", text(format_duration(connections.head_timeout)))?;
        set(out, "body_timeout", text(format_duration(connections.body_timeout)))?;
        set(out, "max_head", text(format_size(connections.max_head)))?;
        let Some(tls) = &self.settings.tls else { return Ok(()) };
        writeln!(out, "\n[tls]")?;
        set(out, "certificate", text(tls.certificate.display()))?;
        set(out, "key", text(tls.key.display()))?;
        match &tls.client_ca {
            Some(client_ca) => set(out, "client_ca", text(client_ca.display())),
            None => Ok(()),
        }
    }

    fn write_audit(&self, out: &mut String) -> fmt::Result {
        let Some(AuditSettings { to, on_failure }) = &self.settings.audit else { return Ok(()) };
        writeln!(out, "\n[audit]")?;
        match to {
            AuditPlace::File(path) => set(out, "file", text(path.display()))?,
            AuditPlace::Stdout => set(out, "stream", text("stdout"))?,
            AuditPlace::Stderr => set(out, "stream", text("stderr"))?,
        }
        let on_failure = match on_failure {
            OnAuditFailure::Log => "log",
            OnAuditFailure::Refuse => "refuse",
        };
        set(out, "on_failure", text(on_failure))
    }

    fn write_hosts(&self, out: &mut String) -> fmt::Result {
        let budget = |budget: Option<std::time::Duration>| {
            text(budget.map_or_else(|| "off".to_owned(), format_duration))
        };
        let hosts = &self.settings.hosts;
        writeln!(out, "\n[hosts]")?;
        set(out, "budget", budget(hosts.budget))?;
        let clients = hosts.clients.iter();
        let clients = clients.map(|(pattern, own)| (pattern.clone(), budget(*own)));
        set(out, "clients", Value::Table(clients.collect()))
    }
}

fn write_limits(out: &mut String, limits: &LimitSettings) -> fmt::Result {
    writeln!(out, "\n[limits]")?;
    let count = |number: Option<usize>| match number {
        Some(number) => Value::Integer(i64::try_from(number).unwrap_or(i64::MAX)),
        None => text("off"),
    };
    let size = |bytes: Option<usize>| text(bytes.map_or_else(|| "off".to_owned(), format_size));
    set(out, "open_tasks", count(limits.open_tasks))?;
    set(out, "owner_open_tasks", count(limits.owner_open_tasks))?;
    set(out, "stored_tasks", count(limits.stored_tasks))?;
    set(out, "owner_stored_tasks", count(limits.owner_stored_tasks))?;
    set(out, "stored_size", size(limits.stored_size))?;
    set(out, "owner_stored_size", size(limits.owner_stored_size))?;
    set(out, "owner_creates", count(limits.owner_creates))?;
    if let Some(burst) = limits.owner_creates_burst {
        set(out, "owner_creates_burst", burst)?;
    }
    set(out, "owner_polls", count(limits.owner_polls))?;
    if let Some(burst) = limits.owner_polls_burst {
        set(out, "owner_polls_burst", burst)?;
    }
    set(out, "calls", count(limits.calls))?;
    set(out, "owner_calls", count(limits.owner_calls))?;
    set(out, "queue", limits.queue)?;
    set(out, "owner_queue", limits.owner_queue)?;
    set(out, "streams", count(limits.streams))?;
    set(out, "owner_streams", count(limits.owner_streams))?;
    set(out, "parked_calls", count(limits.parked_calls))?;
    set(out, "owner_parked_calls", count(limits.owner_parked_calls))?;
    set(out, "backlog", text(format_size(limits.backlog)))?;
    set(out, "unknown_ids", count(limits.unknown_ids))?;
    set(out, "unknown_ids_delay", text(format_duration(limits.unknown_ids_delay)))
}

fn write_upstream(out: &mut String, upstream: &UpstreamConfig) -> fmt::Result {
    writeln!(out, "\n[[upstream]]")?;
    set(out, "name", text(&upstream.name))?;
    match &upstream.server {
        UpstreamServer::Command(command) => {
            let words: Vec<String> =
                std::iter::once(&command.program).chain(&command.args).cloned().collect();
            set(out, "command", list(&words))?;
            write_process(out, command.cwd.as_deref(), &command.env, command.clear_env)?;
        }
        UpstreamServer::Url(url) => write_url(out, url)?,
        UpstreamServer::Run(tool) => write_process(out, tool.cwd.as_deref(), &tool.env, tool.clear_env)?,
        UpstreamServer::Job(_) => {}
        UpstreamServer::Demo => set(out, "demo", true)?,
    }
    if let Some(prefix) = &upstream.prefix {
        set(out, "prefix", text(prefix))?;
    }
    // These are a server's.
    let is_run = matches!(upstream.server, UpstreamServer::Run(_) | UpstreamServer::Job(_));
    if !is_run {
        let speak = match upstream.speak {
            Speak::Auto => "auto",
            Speak::Session => "session",
        };
        set(out, "speak", text(speak))?;
        let upstream_tasks = match upstream.upstream_tasks {
            UpstreamTasks::Auto => "auto",
            UpstreamTasks::Always => "always",
            UpstreamTasks::Never => "never",
        };
        set(out, "upstream_tasks", text(upstream_tasks))?;
        let sessions = match upstream.sessions {
            UpstreamSessions::Owner => "owner",
            UpstreamSessions::Shared => "shared",
        };
        set(out, "sessions", text(sessions))?;
    }
    match &upstream.server {
        UpstreamServer::Run(tool) => write_run(out, tool)?,
        UpstreamServer::Url(url) => {
            if let Auth::OAuth(tokens) = &url.server.auth {
                write_oauth(out, tokens, url)?;
            }
        }
        UpstreamServer::Job(job) => write_job(out, job)?,
        UpstreamServer::Command(_) | UpstreamServer::Demo => {}
    }
    let mut write = |header: String, policy: &ToolPolicy| {
        writeln!(out, "\n[upstream.{header}]")?;
        write_policy(out, policy)?;
        if is_run { Ok(()) } else { write_after_crash(out, policy) }
    };
    write("defaults".to_owned(), &upstream.policy)?;
    upstream.tools.iter().try_for_each(|(name, policy)| write(format!("tools.{}", text(name)), policy))
}

/// How a process is started, whatever it is.
fn write_process(
    out: &mut String,
    cwd: Option<&Path>,
    env: &[(String, String)],
    clear_env: bool,
) -> fmt::Result {
    if let Some(cwd) = cwd {
        set(out, "cwd", text(Path::display(cwd)))?;
    }
    if !env.is_empty() {
        let variables = env.iter().map(|(name, _)| format!("{} = {}", text(name), text(HIDDEN)));
        set(out, "env", format!("{{ {} }}", variables.collect::<Vec<_>>().join(", ")))?;
    }
    set(out, "clear_env", clear_env)
}

/// Where a server is. What may be a secret in its URL is hidden like any other.
fn write_url(out: &mut String, url: &UrlServer) -> fmt::Result {
    let UrlServer { server, is_hidden } = url;
    let shown = match server.url.as_url().query() {
        _ if *is_hidden => HIDDEN.to_owned(),
        Some(_) => format!("{}?{HIDDEN}", server.url.resource()),
        None => server.url.resource(),
    };
    set(out, "url", text(shown))?;
    if !server.headers.is_empty() {
        let headers = server.headers.iter();
        let headers = headers.map(|(name, value)| format!("{} = {}", text(name), secret(value)));
        set(out, "headers", format!("{{ {} }}", headers.collect::<Vec<_>>().join(", ")))?;
    }
    if let Auth::Bearer(bearer) = &server.auth {
        set(out, "bearer", secret(bearer))?;
    }
    set(out, "plain_http", server.plain_http)
}

fn write_oauth(out: &mut String, tokens: &TokenServer, url: &UrlServer) -> fmt::Result {
    writeln!(out, "\n[upstream.oauth]")?;
    let oauth = tokens.oauth();
    if let Some(token_url) = tokens.url() {
        set(out, "token_url", text(token_url.as_url()))?;
    }
    if let Some(issuer) = tokens.issuer() {
        set(out, "issuer", text(issuer))?;
    }
    set(out, "client_id", text(&oauth.client_id))?;
    if let Some(known) = &oauth.client_secret {
        set(out, "client_secret", secret(known))?;
        set(out, "secret_in", text(if oauth.secret_in_form { "form" } else { "header" }))?;
    }
    if let Some(token) = &oauth.refresh_token {
        set(out, "refresh_token", secret(token))?;
    }
    let scopes = oauth.scope.as_deref().unwrap_or_default().split_whitespace().map(str::to_owned);
    set(out, "scopes", list(&scopes.collect::<Vec<_>>()))?;
    // What is not written is the URL.
    if url.is_hidden && oauth.resource.as_deref() == Some(&url.server.url.resource()) {
        return Ok(());
    }
    oauth.resource.iter().try_for_each(|resource| set(out, "resource", text(resource)))
}

/// A secret without its value: where it is, or only that it is there.
fn secret(secret: &Secret) -> String {
    match secret {
        Secret::Text(_) | Secret::Env(_) => text(HIDDEN).to_string(),
        Secret::File(path) => format!("{{ from_file = {} }}", text(path.display())),
    }
}

/// Where a key of the store is.
fn key(source: &Source) -> String {
    match source {
        Source::Kept(Secret::Env(name)) => format!("{{ from_env = {} }}", text(name)),
        Source::Kept(kept) => secret(kept),
        Source::Command(words) => format!("{{ from_command = {} }}", list(words)),
    }
}

fn write_run(out: &mut String, tool: &CommandTool) -> fmt::Result {
    writeln!(out, "\n[upstream.run]")?;
    set(out, "tool", text(&tool.tool))?;
    let words = |group: &Group| Value::Array(group.iter().map(text).collect());
    let line = tool.line.iter().map(|group| match &**group {
        [word] => text(word),
        _ => words(group),
    });
    set(out, "command", Value::Array(line.collect()))?;
    if let Some(description) = &tool.description {
        set(out, "description", text(description))?;
    }
    write_schema(out, "input_schema", &tool.input_schema)?;
    let stdin = match tool.stdin {
        Stdin::Arguments => "arguments",
        Stdin::Nothing => "none",
    };
    set(out, "stdin", text(stdin))?;
    set(
        out,
        "success",
        Value::Array(tool.success.iter().map(|code| Value::Integer((*code).into())).collect()),
    )?;
    if !tool.exit_codes.is_empty() {
        let codes = tool.exit_codes.iter().map(|(code, meaning)| format!("{code} = {}", text(meaning)));
        set(out, "exit_codes", format!("{{ {} }}", codes.collect::<Vec<_>>().join(", ")))?;
    }
    if let Some(progress) = &tool.progress {
        set(out, "progress", text(progress))?;
    }
    let output = match tool.output {
        Output::Text => "text",
        Output::Json => "json",
    };
    set(out, "output", text(output))?;
    if let Some(schema) = &tool.output_schema {
        write_schema(out, "output_schema", schema)?;
    }
    set(out, "output_limit", text(format_size(tool.output_limit)))?;
    set(out, "stop_grace", text(format_duration(tool.stop_grace)))
}

fn write_schema(out: &mut String, key: &str, schema: &ToolSchema) -> fmt::Result {
    // It was read from TOML, so there is a way to write it.
    let schema = serde_json::from_str(schema.as_payload().as_str()).ok();
    match schema.and_then(|schema: serde_json::Value| Value::try_from(schema).ok()) {
        Some(schema) => set(out, key, schema),
        None => Ok(()),
    }
}

fn write_job(out: &mut String, job: &JobTool) -> fmt::Result {
    writeln!(out, "\n[upstream.job]")?;
    // It was read from TOML, so there is a way to write it.
    let values = job.written.iter().filter_map(|(key, value)| Some((key, Value::try_from(value).ok()?)));
    values.into_iter().try_for_each(|(key, value)| set(out, key, value))
}

fn write_policy(out: &mut String, policy: &ToolPolicy) -> fmt::Result {
    let tasks = match policy.tasks {
        TaskMode::Auto => "auto",
        TaskMode::Always => "always",
        TaskMode::Never => "never",
    };
    let lifetime = &policy.lifetime;
    set(out, "tasks", text(tasks))?;
    set(out, "inline_for", text(format_duration(policy.inline_for)))?;
    set(out, "run_limit", text(format_duration(lifetime.run_limit)))?;
    set(out, "idle_limit", text(lifetime.idle_limit.map_or_else(|| "off".to_owned(), format_duration)))?;
    set(out, "retention", text(format_duration(lifetime.retention)))?;
    set(out, "max_retention", text(format_duration(lifetime.max_retention)))?;
    set(out, "poll_interval", text(format_duration(policy.poll_interval)))?;
    set(out, "max_attempts", policy.max_attempts)?;
    // An empty text is written, too: it keeps a tool from getting its upstream's.
    set(out, "immediate_response", text(policy.immediate_response.as_deref().unwrap_or_default()))?;
    set(out, "secret_arguments", list(&policy.secret_arguments))?;
    set(out, "check_arguments", policy.check_arguments)?;
    let check_output = match policy.check_output {
        CheckOutput::Off => "off",
        CheckOutput::Warn => "warn",
        CheckOutput::Error => "error",
    };
    set(out, "check_output", text(check_output))
}

fn write_after_crash(out: &mut String, policy: &ToolPolicy) -> fmt::Result {
    let after_crash = match policy.class {
        None => "annotations",
        Some(WorkClass::Live) => "fail",
        Some(WorkClass::Repeatable) => "repeat",
        Some(WorkClass::Resumable) => "resume",
        // There is no word for it: it is what a kind of upstream does.
        Some(WorkClass::External) => "annotations",
    };
    set(out, "after_crash", text(after_crash))
}

fn set(out: &mut String, key: &str, value: impl Display) -> fmt::Result {
    writeln!(out, "{key} = {value}")
}

fn text(text: impl Display) -> Value {
    Value::String(text.to_string())
}

fn list(items: &[String]) -> Value {
    Value::Array(items.iter().map(text).collect())
}

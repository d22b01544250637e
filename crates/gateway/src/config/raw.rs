//! The file exactly as it was written: nothing defaulted, nothing converted, every value with its place.

pub(super) mod audit;
pub(super) mod auth;
pub(super) mod connections;
pub(super) mod encryption;
pub(super) mod hosts;
pub(super) mod http;
pub(super) mod limits;
pub(super) mod network;
pub(super) mod rules;
mod run;

use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use super::error::Problems;
use super::fields::{Entry, Fields, FromValue, Section, with_article};
use super::raw_job::{JOB, RawJob};
use audit::{AUDIT, RawAudit};
use auth::RawAuth;
use connections::{CONNECTIONS, TLS};
use encryption::{ENCRYPTION, RawEncryption};
use hosts::HOSTS;
use http::{OAUTH, RawHeader, RawOAuth, RawSecret};
use limits::{LIMITS, METRICS};
use network::{NETWORK, RawNetwork};
use rules::{RULE, RULES, RawRules};

pub(super) use connections::{RawConnections, RawTls};
pub(super) use hosts::RawHosts;
pub(super) use limits::{RawCount, RawLimits};
pub(super) use run::{RUN, RawExit, RawRun, RawWords};

/// The keys at the top of the file.
pub(super) const TOP: Section = Section {
    name: "the top part of the file",
    keys: &[
        "listen",
        "path",
        "store",
        "server_name",
        "public_url",
        "single_user",
        "bind",
        "auth",
        "policy",
        "allowed_hosts",
        "allowed_origins",
        "max_message",
        "max_result",
        "keep_alive",
        "session_idle",
        "max_sessions",
        "owner_session_idle",
        "max_owner_sessions",
        "session_requests",
        "session_replay",
        "replay_events",
        "replay_size",
        "replay_for",
        "stream_close_after",
        "stream_retry",
        "stream_task_questions",
        "drain_grace",
        "node_name",
        "lease",
        "heartbeat",
        "store_poll",
        "connections",
        "tls",
        "hosts",
        "limits",
        "metrics",
        "network",
        "audit",
        "encryption",
        "defaults",
        "upstream",
    ],
};

/// The keys of `[[upstream]]`.
pub(super) const UPSTREAM: Section = Section {
    name: "[[upstream]]",
    keys: &[
        "name",
        "command",
        "url",
        "run",
        "job",
        "demo",
        "headers",
        "bearer",
        "oauth",
        "plain_http",
        "cwd",
        "env",
        "clear_env",
        "prefix",
        "speak",
        "upstream_tasks",
        "sessions",
        "defaults",
        "tools",
    ],
};

/// The keys that say how calls are treated; the same at all three levels.
const POLICY_KEYS: &[&str] = &[
    "tasks",
    "inline_for",
    "run_limit",
    "idle_limit",
    "retention",
    "max_retention",
    "poll_interval",
    "after_crash",
    "max_attempts",
    "immediate_response",
    "secret_arguments",
    "check_arguments",
    "check_output",
];
/// The keys of `[defaults]`.
pub(super) const DEFAULTS: Section = Section { name: "[defaults]", keys: POLICY_KEYS };
/// The keys of `[upstream.defaults]`.
pub(super) const UPSTREAM_DEFAULTS: Section = Section { name: "[upstream.defaults]", keys: POLICY_KEYS };
/// The keys of `[upstream.tools.NAME]`.
pub(super) const TOOL: Section = Section { name: "[upstream.tools.NAME]", keys: POLICY_KEYS };

/// The keys of a variable that is not written out.
pub(super) const VARIABLE: Section = Section { name: "a variable of `env`", keys: &["from_env"] };

/// The whole file.
#[derive(Debug)]
pub(super) struct RawConfig {
    pub(super) listen: Entry<String>,
    pub(super) path: Entry<String>,
    pub(super) store: Entry<String>,
    pub(super) server_name: Entry<String>,
    pub(super) public_url: Entry<String>,
    pub(super) single_user: Entry<bool>,
    pub(super) bind: Entry<String>,
    pub(super) auth: Entry<RawAuth>,
    pub(super) rules: Entry<RawRules>,
    pub(super) allowed_hosts: Entry<Vec<Spanned<String>>>,
    pub(super) allowed_origins: Entry<Vec<Spanned<String>>>,
    pub(super) max_message: Entry<String>,
    pub(super) max_result: Entry<String>,
    pub(super) keep_alive: Entry<String>,
    pub(super) session_idle: Entry<String>,
    pub(super) max_sessions: Entry<i64>,
    pub(super) owner_session_idle: Entry<String>,
    pub(super) max_owner_sessions: Entry<i64>,
    pub(super) session_requests: Entry<i64>,
    pub(super) session_replay: Entry<String>,
    pub(super) replay_events: Entry<i64>,
    pub(super) replay_size: Entry<String>,
    pub(super) replay_for: Entry<String>,
    pub(super) stream_close_after: Entry<String>,
    pub(super) stream_retry: Entry<String>,
    pub(super) stream_task_questions: Entry<String>,
    pub(super) drain_grace: Entry<String>,
    pub(super) node_name: Entry<String>,
    pub(super) lease: Entry<String>,
    pub(super) heartbeat: Entry<String>,
    pub(super) store_poll: Entry<String>,
    pub(super) connections: RawConnections,
    pub(super) tls: Entry<RawTls>,
    pub(super) hosts: RawHosts,
    pub(super) limits: RawLimits,
    pub(super) encryption: Entry<RawEncryption>,
    /// Where the numbers are served.
    pub(super) metrics: Entry<String>,
    /// What URLs of others may lead to.
    pub(super) network: RawNetwork,
    /// Where it is kept who has done what.
    pub(super) audit: Entry<RawAudit>,
    pub(super) defaults: RawPolicy,
    /// `None` if there is none at all. Empty if something is there that could not be read.
    pub(super) upstreams: Option<Vec<Spanned<RawUpstream>>>,
}

/// One `[[upstream]]`.
#[derive(Debug)]
pub(super) struct RawUpstream {
    pub(super) name: Entry<String>,
    pub(super) command: Entry<Vec<Spanned<String>>>,
    pub(super) url: Entry<RawSecret>,
    pub(super) headers: Entry<Vec<RawHeader>>,
    pub(super) bearer: Entry<RawSecret>,
    pub(super) oauth: Entry<RawOAuth>,
    pub(super) plain_http: Entry<bool>,
    pub(super) run: Entry<RawRun>,
    pub(super) job: Entry<RawJob>,
    pub(super) demo: Entry<bool>,
    pub(super) cwd: Entry<String>,
    pub(super) env: Entry<Vec<RawVariable>>,
    pub(super) clear_env: Entry<bool>,
    pub(super) prefix: Entry<String>,
    pub(super) speak: Entry<String>,
    pub(super) upstream_tasks: Entry<String>,
    pub(super) sessions: Entry<String>,
    pub(super) defaults: RawPolicy,
    pub(super) tools: Vec<(Spanned<String>, RawPolicy)>,
    /// Keys that are there, even if their values could not be read, so that they do not count as missing.
    pub(super) written: Vec<String>,
}

/// How calls are treated, at one of the three levels.
#[derive(Debug, Default)]
pub(super) struct RawPolicy {
    pub(super) tasks: Entry<String>,
    pub(super) inline_for: Entry<String>,
    pub(super) run_limit: Entry<String>,
    pub(super) idle_limit: Entry<String>,
    pub(super) retention: Entry<String>,
    pub(super) max_retention: Entry<String>,
    pub(super) poll_interval: Entry<String>,
    pub(super) after_crash: Entry<String>,
    pub(super) max_attempts: Entry<i64>,
    pub(super) immediate_response: Entry<String>,
    pub(super) secret_arguments: Entry<Vec<Spanned<String>>>,
    pub(super) check_arguments: Entry<bool>,
    pub(super) check_output: Entry<String>,
}

/// A variable for a child process.
#[derive(Debug)]
pub(super) struct RawVariable {
    pub(super) name: Spanned<String>,
    pub(super) value: RawValue,
}

/// Where a variable's value comes from.
#[derive(Debug)]
pub(super) enum RawValue {
    /// It is written in the file.
    Plain(String),
    /// It is the value of one of our own variables.
    FromEnv(Spanned<String>),
}

impl RawConfig {
    /// Reads the file's top table.
    pub(super) fn read(table: &DeTable<'_>, problems: &Problems) -> RawConfig {
        let fields = Fields::new(
            table,
            &TOP,
            &[
                &CONNECTIONS,
                &TLS,
                &HOSTS,
                &LIMITS,
                &METRICS,
                &NETWORK,
                &AUDIT,
                &ENCRYPTION,
                &DEFAULTS,
                &UPSTREAM,
                &RULES,
                &RULE,
            ],
            problems,
        );
        let array = fields.get::<&DeArray<'_>>("upstream").filter(|array| !array.get_ref().is_empty());
        let is_misread =
            array.is_none() && table.get("upstream").is_some_and(|value| !value.get_ref().is_array());
        let upstreams = array.map(|array| {
            let tables = array.get_ref().iter().filter_map(|item| match item.get_ref() {
                DeValue::Table(table) => Some(Spanned::new(item.span(), RawUpstream::read(table, problems))),
                other => {
                    let found = with_article(other.type_str());
                    problems.add(item.span(), format!("`upstream` must hold tables, not {found}"));
                    None
                }
            });
            tables.collect()
        });
        RawConfig {
            listen: fields.get("listen"),
            path: fields.get("path"),
            store: fields.get("store"),
            server_name: fields.get("server_name"),
            public_url: fields.get("public_url"),
            single_user: fields.get("single_user"),
            bind: fields.get("bind"),
            auth: fields.get("auth"),
            rules: fields.get("policy"),
            allowed_hosts: fields.get("allowed_hosts"),
            allowed_origins: fields.get("allowed_origins"),
            max_message: fields.get("max_message"),
            max_result: fields.get("max_result"),
            keep_alive: fields.get("keep_alive"),
            session_idle: fields.get("session_idle"),
            max_sessions: fields.get("max_sessions"),
            owner_session_idle: fields.get("owner_session_idle"),
            max_owner_sessions: fields.get("max_owner_sessions"),
            session_requests: fields.get("session_requests"),
            session_replay: fields.get("session_replay"),
            replay_events: fields.get("replay_events"),
            replay_size: fields.get("replay_size"),
            replay_for: fields.get("replay_for"),
            stream_close_after: fields.get("stream_close_after"),
            stream_retry: fields.get("stream_retry"),
            stream_task_questions: fields.get("stream_task_questions"),
            drain_grace: fields.get("drain_grace"),
            node_name: fields.get("node_name"),
            lease: fields.get("lease"),
            heartbeat: fields.get("heartbeat"),
            store_poll: fields.get("store_poll"),
            connections: RawConnections::read(fields.get("connections"), problems),
            tls: fields
                .get::<&DeTable<'_>>("tls")
                .map(|table| Spanned::new(table.span(), RawTls::read(table.get_ref(), problems))),
            hosts: RawHosts::read(fields.get("hosts"), problems),
            limits: RawLimits::read(fields.get("limits"), problems),
            encryption: fields
                .get::<&DeTable<'_>>("encryption")
                .map(|table| Spanned::new(table.span(), RawEncryption::read(table.get_ref(), problems))),
            metrics: limits::metrics(fields.get("metrics"), problems),
            network: RawNetwork::read(fields.get("network"), problems),
            audit: fields
                .get::<&DeTable<'_>>("audit")
                .map(|table| Spanned::new(table.span(), RawAudit::read(table.get_ref(), problems))),
            defaults: RawPolicy::read(fields.get("defaults"), &DEFAULTS, problems),
            upstreams: upstreams.or_else(|| is_misread.then(Vec::new)),
        }
    }
}

impl RawUpstream {
    fn read(table: &DeTable<'_>, problems: &Problems) -> RawUpstream {
        let fields = Fields::new(table, &UPSTREAM, &[&UPSTREAM_DEFAULTS, &TOP, &RUN, &JOB, &OAUTH], problems);
        let mut tools = Vec::new();
        for (name, policy) in
            fields.get::<&DeTable<'_>>("tools").iter().flat_map(|tools| tools.get_ref().iter())
        {
            match policy.get_ref() {
                DeValue::Table(table) => {
                    let policy = RawPolicy::read(Some(Spanned::new(policy.span(), table)), &TOOL, problems);
                    tools.push((Spanned::new(name.span(), name.get_ref().to_string()), policy));
                }
                other => {
                    let found = with_article(other.type_str());
                    let help = format!("write [upstream.tools.{}] and the keys below it", name.get_ref());
                    let what = format!("the tool `{}` must be a table, not {found}", name.get_ref());
                    problems.add_with_help(policy.span(), what, help);
                }
            }
        }
        RawUpstream {
            name: fields.get("name"),
            command: fields.get("command"),
            url: fields.get("url"),
            headers: fields.get("headers"),
            bearer: fields.get("bearer"),
            oauth: fields.get("oauth"),
            plain_http: fields.get("plain_http"),
            run: fields.get("run"),
            job: fields.get("job"),
            demo: fields.get("demo"),
            cwd: fields.get("cwd"),
            env: fields.get("env"),
            clear_env: fields.get("clear_env"),
            prefix: fields.get("prefix"),
            speak: fields.get("speak"),
            upstream_tasks: fields.get("upstream_tasks"),
            sessions: fields.get("sessions"),
            defaults: RawPolicy::read(fields.get("defaults"), &UPSTREAM_DEFAULTS, problems),
            tools,
            written: table.keys().map(|key| key.get_ref().to_string()).collect(),
        }
    }

    /// Whether the key is there, with whatever value.
    pub(super) fn has(&self, key: &str) -> bool {
        self.written.iter().any(|written| written == key)
    }
}

impl RawPolicy {
    fn read(table: Entry<&DeTable<'_>>, section: &'static Section, problems: &Problems) -> RawPolicy {
        let Some(table) = table else {
            return RawPolicy::default();
        };
        let fields = Fields::new(table.get_ref(), section, &[&TOP, &UPSTREAM], problems);
        RawPolicy {
            tasks: fields.get("tasks"),
            inline_for: fields.get("inline_for"),
            run_limit: fields.get("run_limit"),
            idle_limit: fields.get("idle_limit"),
            retention: fields.get("retention"),
            max_retention: fields.get("max_retention"),
            poll_interval: fields.get("poll_interval"),
            after_crash: fields.get("after_crash"),
            max_attempts: fields.get("max_attempts"),
            immediate_response: fields.get("immediate_response"),
            secret_arguments: fields.get("secret_arguments"),
            check_arguments: fields.get("check_arguments"),
            check_output: fields.get("check_output"),
        }
    }
}

impl<'a, 'i> FromValue<'a, 'i> for Vec<RawVariable> {
    const WHAT: &'static str = "a table of variables";

    fn read(value: &'a DeValue<'i>, _: &'static str, problems: &Problems) -> Option<Self> {
        let mut variables = Vec::new();
        for (name, value) in value.as_table()?.iter() {
            let read = match value.get_ref() {
                DeValue::String(text) => Some(RawValue::Plain(text.to_string())),
                DeValue::Table(table) => match Fields::new(table, &VARIABLE, &[], problems).get("from_env") {
                    Some(source) => Some(RawValue::FromEnv(source)),
                    // A key that is there but wrong has been noted already.
                    None if !table.is_empty() => continue,
                    None => None,
                },
                _ => None,
            };
            let name = Spanned::new(name.span(), name.get_ref().to_string());
            match read {
                Some(value) => variables.push(RawVariable { name, value }),
                None => problems.add_with_help(
                    value.span(),
                    format!(
                        "the variable `{}` must be a string or {{ from_env = \"NAME\" }}",
                        name.get_ref()
                    ),
                    "from_env takes the value of a variable of taskgate's own environment",
                ),
            }
        }
        Some(variables)
    }
}

//! The upstream servers: how each is called, how it is reached and how its tools are treated.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::{Path, PathBuf};
use taskgate_credentials::redact::{self, is_secret_name};

use taskgate_client::transport::stdio::StdioCommand;
use toml::Spanned;

use super::http::LONG;
use super::{Surroundings, UrlServer, http, job, place, policy, run, span_of};
use crate::config::raw::{RawUpstream, RawValue};
use crate::policy::{Speak, ToolPolicy, UpstreamKind, UpstreamSessions, UpstreamSpec, UpstreamTasks};
use crate::upstream::{CommandTool, JobTool};

/// The longest tool name MCP allows.
pub(super) const LONGEST_TOOL: usize = 128;

/// One upstream server of a valid configuration.
#[derive(Debug, Clone)]
pub struct UpstreamConfig {
    /// Its name; no other upstream has it.
    pub name: String,
    /// How it is reached.
    pub server: UpstreamServer,
    /// What is put before its tool names.
    pub prefix: Option<String>,
    /// Which generation to speak with it.
    pub speak: Speak,
    /// Whether it is asked for tasks of its own.
    pub upstream_tasks: UpstreamTasks,
    /// Who shares a connection to it.
    pub sessions: UpstreamSessions,
    /// How its calls are treated.
    pub policy: ToolPolicy,
    /// How the calls of single tools are treated, by the upstream's own names.
    pub tools: BTreeMap<String, ToolPolicy>,
}

/// How an upstream server is reached.
#[derive(Clone)]
pub enum UpstreamServer {
    /// A child process that speaks MCP over stdio.
    Command(StdioCommand),
    /// A server that is a URL.
    Url(UrlServer),
    /// None: a command that is a tool by itself and outlives the program.
    Run(CommandTool),
    /// None: a job of an API that is a tool by itself.
    Job(Box<JobTool>),
    /// The demo server of the program that reads the configuration.
    Demo,
}

impl UpstreamConfig {
    /// What the gateway takes. `demo` makes the program's demo server, where one is asked for.
    pub fn spec(&self, demo: impl FnOnce() -> UpstreamKind) -> UpstreamSpec {
        let kind = match &self.server {
            UpstreamServer::Command(command) => UpstreamKind::Process(command.clone()),
            UpstreamServer::Url(url) => UpstreamKind::Http(url.server.clone()),
            UpstreamServer::Run(tool) => UpstreamKind::Command(tool.clone()),
            UpstreamServer::Job(tool) => UpstreamKind::Job(tool.clone()),
            UpstreamServer::Demo => demo(),
        };
        UpstreamSpec {
            prefix: self.prefix.clone(),
            speak: self.speak,
            upstream_tasks: self.upstream_tasks,
            sessions: self.sessions,
            policy: self.policy.clone(),
            tools: self.tools.clone().into_iter().collect::<HashMap<_, _>>(),
            ..UpstreamSpec::new(self.name.clone(), kind)
        }
    }
}

/// The values of variables are left out, since they are where secrets are handed over.
impl fmt::Debug for UpstreamServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UpstreamServer::Demo => f.write_str("Demo"),
            UpstreamServer::Url(url) => f.debug_tuple("Url").field(url).finish(),
            UpstreamServer::Run(tool) => f.debug_tuple("Run").field(tool).finish(),
            UpstreamServer::Job(tool) => f.debug_tuple("Job").field(tool).finish(),
            UpstreamServer::Command(command) => f
                .debug_struct("Command")
                .field("program", &command.program)
                .field("args", &command.args)
                .field("env", &command.env.iter().map(|(name, _)| name).collect::<Vec<_>>())
                .field("clear_env", &command.clear_env)
                .field("cwd", &command.cwd)
                .finish_non_exhaustive(),
        }
    }
}

/// Checks the name of an upstream, or its prefix.
///
/// # Errors
///
/// What is wrong with it, as the end of a sentence that begins with it.
pub fn check_name(name: &str) -> Result<(), String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    match name {
        "" => Err("is empty".to_owned()),
        _ if name.len() > 64 => Err("is too long".to_owned()),
        _ if !name.bytes().all(plain) => Err("has a character that cannot be used".to_owned()),
        _ => Ok(()),
    }
}

/// What [`check_name`] accepts, for messages.
const NAMES: &str = r#"1 to 64 letters, digits, "_", "." and "-""#;

/// Checks all upstreams and that no two are called the same.
pub(super) fn check_all(
    raw: Option<&[Spanned<RawUpstream>]>,
    defaults: &ToolPolicy,
    max_result: usize,
    around: &Surroundings<'_>,
) -> Vec<UpstreamConfig> {
    let Some(tables) = raw else {
        let help = "add an [[upstream]] with a `name` and a `command` or a `url`, or with `demo = true`";
        around.problems.add_missing("there is no upstream, so there is nothing to serve", help);
        return Vec::new();
    };
    unique(tables, "name", |upstream| upstream.name.as_ref(), around);
    unique(tables, "prefix", |upstream| upstream.prefix.as_ref(), around);
    tables.iter().map(|upstream| check(upstream, defaults, max_result, around)).collect()
}

/// Names and prefixes tell upstreams apart, so each can be used once.
fn unique(
    tables: &[Spanned<RawUpstream>],
    key: &str,
    get: fn(&RawUpstream) -> Option<&Spanned<String>>,
    around: &Surroundings<'_>,
) {
    let mut seen: Vec<&str> = Vec::new();
    for value in tables.iter().filter_map(|table| get(table.get_ref())) {
        if seen.contains(&value.get_ref().as_str()) {
            let what = format!(
                "`{key}`: \"{}\" is already used by another upstream",
                value.get_ref().escape_debug()
            );
            around.problems.add_with_help(value.span(), what, format!("allowed: a {key} of its own"));
        }
        seen.push(value.get_ref());
    }
}

fn check(
    raw: &Spanned<RawUpstream>,
    defaults: &ToolPolicy,
    max_result: usize,
    around: &Surroundings<'_>,
) -> UpstreamConfig {
    let span = raw.span();
    let raw = raw.get_ref();
    if !raw.has("name") {
        let help = format!("add `name = \"…\"`: {NAMES}");
        around.problems.add_with_help(span.clone(), "this upstream has no `name`", help);
    }
    let named = |text: &str| check_name(text).map(|()| text.to_owned());
    let name = around.parsed(&raw.name, "name", NAMES, named).unwrap_or_default();
    let prefix = around.parsed(&raw.prefix, "prefix", NAMES, named);
    let demo = raw.demo.as_ref().is_some_and(|demo| *demo.get_ref());
    let server = check_server(raw, demo, span, max_result, around);
    refuse_what_is_for_others(raw, demo, around);
    let policy = policy::check(&raw.defaults, defaults, around);
    let mut tools = BTreeMap::new();
    for (tool, own) in &raw.tools {
        if tool.get_ref().is_empty() || tool.get_ref().len() > LONGEST_TOOL {
            let what = format!("a tool's name has 1 to {LONGEST_TOOL} bytes");
            around.problems.add(tool.span(), what);
        }
        tools.insert(tool.get_ref().clone(), policy::check(own, &policy, around));
    }
    let speak = around.parsed(&raw.speak, "speak", r#""auto", "session""#, parse_speak).unwrap_or_default();
    let words = r#""auto", "always", "never""#;
    let upstream_tasks = around.parsed(&raw.upstream_tasks, "upstream_tasks", words, parse_upstream_tasks);
    let upstream_tasks = upstream_tasks.unwrap_or_default();
    let sessions = around.parsed(&raw.sessions, "sessions", r#""owner", "shared""#, parse_sessions);
    let sessions = sessions.unwrap_or(match &server {
        UpstreamServer::Url(_) => UpstreamSessions::Owner,
        _ => UpstreamSessions::Shared,
    });
    UpstreamConfig { name, server, prefix, speak, upstream_tasks, sessions, policy, tools }
}

/// Keys that say something about a kind of upstream which this one is not.
fn refuse_what_is_for_others(raw: &RawUpstream, demo: bool, around: &Surroundings<'_>) {
    let of_processes =
        [("cwd", span_of(&raw.cwd)), ("env", span_of(&raw.env)), ("clear_env", span_of(&raw.clear_env))];
    let of_urls = [
        ("headers", span_of(&raw.headers)),
        ("bearer", span_of(&raw.bearer)),
        ("oauth", span_of(&raw.oauth)),
        ("plain_http", span_of(&raw.plain_http)),
    ];
    let refuse = |keys: &[(&str, Option<std::ops::Range<usize>>)], why: &str| {
        for (key, span) in keys {
            if let Some(span) = span {
                around.problems.add(span.clone(), format!("`{key}` is for {why}"));
            }
        }
    };
    if demo {
        refuse(&of_processes, "a `command`, and the demo server is no child process");
    } else if raw.job.is_some() {
        refuse(&of_processes, "a `command`, and a job is no child process");
    } else if raw.url.is_some() {
        refuse(&of_processes, "a `command`, and a server that is a `url` is no child process");
    }
    if demo || raw.command.is_some() || raw.run.is_some() || raw.job.is_some() {
        refuse(&of_urls, "a `url`, and this upstream has none");
    }
}

/// What stands behind the upstream: exactly one of five.
fn check_server(
    raw: &RawUpstream,
    demo: bool,
    span: std::ops::Range<usize>,
    max_result: usize,
    around: &Surroundings<'_>,
) -> UpstreamServer {
    let command = span_of(&raw.command).map(|span| ("`command`", span));
    let url = span_of(&raw.url).map(|span| ("`url`", span));
    let run = span_of(&raw.run).map(|span| ("[upstream.run]", span));
    let job = span_of(&raw.job).map(|span| ("[upstream.job]", span));
    let demo_span = span_of(&raw.demo).filter(|_| demo).map(|span| ("`demo = true`", span));
    let written: Vec<_> = [command, url, run, job, demo_span].into_iter().flatten().collect();
    if let [(first, span), (second, _), ..] = &written[..] {
        let what = format!("this upstream has both {first} and {second}");
        around.problems.add_with_help(span.clone(), what, "allowed: one of the two");
        return UpstreamServer::Demo;
    }
    if let Some(command) = &raw.command {
        return UpstreamServer::Command(check_command(command, raw, around));
    }
    if let Some(url) = &raw.url {
        return http::check(url, raw, around).map_or(UpstreamServer::Demo, UpstreamServer::Url);
    }
    if let Some(run) = &raw.run {
        return UpstreamServer::Run(run::check(run, raw, max_result, around));
    }
    if let Some(written) = &raw.job {
        let tool = job::check(written, raw, around);
        return tool.map_or(UpstreamServer::Demo, |tool| UpstreamServer::Job(Box::new(tool)));
    }
    // One that is there but of the wrong type has been noted already.
    let is_misread = ["command", "url", "run", "job"].into_iter().any(|key| raw.has(key))
        || (raw.has("demo") && raw.demo.is_none());
    if !demo && !is_misread {
        let what = "this upstream has neither `command` nor `url` nor [upstream.run] nor [upstream.job] nor `demo = true`";
        let help = r#"add `command = ["PROGRAM", "ARGUMENT"]`, or `url = "https://…"`"#;
        around.problems.add_with_help(span, what, help);
    }
    UpstreamServer::Demo
}

fn parse_speak(word: &str) -> Result<Speak, String> {
    match word {
        "auto" => Ok(Speak::Auto),
        "session" => Ok(Speak::Session),
        _ => Err("is none of these words".to_owned()),
    }
}

fn parse_sessions(word: &str) -> Result<UpstreamSessions, String> {
    match word {
        "owner" => Ok(UpstreamSessions::Owner),
        "shared" => Ok(UpstreamSessions::Shared),
        _ => Err("is none of these words".to_owned()),
    }
}

fn parse_upstream_tasks(word: &str) -> Result<UpstreamTasks, String> {
    match word {
        "auto" => Ok(UpstreamTasks::Auto),
        "always" => Ok(UpstreamTasks::Always),
        "never" => Ok(UpstreamTasks::Never),
        _ => Err("is none of these words".to_owned()),
    }
}

/// What helps whoever names no program.
pub(super) const PROGRAM: &str =
    r#"allowed: the program and its arguments, such as ["npx", "-y", "some-server"]"#;

fn check_command(
    words: &Spanned<Vec<Spanned<String>>>,
    raw: &RawUpstream,
    around: &Surroundings<'_>,
) -> StdioCommand {
    let mut text = Vec::new();
    for word in words.get_ref() {
        if word.get_ref().contains('\0') {
            around.problems.add(word.span(), "`command` has a character that no argument can have");
        }
        text.push(word.get_ref().clone());
    }
    know_options(&text);
    let mut text = text.into_iter();
    let program = text.next().unwrap_or_default();
    if program.is_empty() {
        let span = words.get_ref().first().map_or(words.span(), Spanned::span);
        around.problems.add_with_help(span, "`command` names no program", PROGRAM);
    }
    let Process { env, clear_env, cwd } = check_process(raw, around);
    StdioCommand { env, clear_env, cwd, ..StdioCommand::new(program).args(text) }
}

/// What follows an option whose name says that it is a secret is one. Everybody on the machine can see it, but not everybody the log.
fn know_options(words: &[String]) {
    for (index, word) in words.iter().enumerate() {
        match word.split_once('=') {
            Some((name, value)) if is_secret_name(name) => redact::know(value),
            None if word.starts_with('-') && is_secret_name(word) => {
                words.get(index + 1).into_iter().for_each(|value| redact::know(value));
            }
            _ => {}
        }
    }
}

/// Where and with what a process starts, whatever it is.
pub(super) struct Process {
    pub(super) env: Vec<(String, String)>,
    pub(super) clear_env: bool,
    pub(super) cwd: Option<PathBuf>,
}

pub(super) fn check_process(raw: &RawUpstream, around: &Surroundings<'_>) -> Process {
    let cwd = around.parsed(&raw.cwd, "cwd", "the path of a directory", |text| match text {
        "" => Err("is empty".to_owned()),
        _ if text.contains('\0') => Err("has a character that no path can have".to_owned()),
        _ => place::whole(Path::new(text), around),
    });
    let clear_env = raw.clear_env.as_ref().is_some_and(|clear| *clear.get_ref());
    Process { env: check_env(raw, around), clear_env, cwd }
}

fn check_env(raw: &RawUpstream, around: &Surroundings<'_>) -> Vec<(String, String)> {
    let mut variables = Vec::new();
    for variable in raw.env.iter().flat_map(|env| env.get_ref()) {
        let name = &variable.name;
        if name.get_ref().is_empty() || name.get_ref().contains(['=', '\0']) {
            let what =
                format!("`env`: \"{}\" cannot be the name of a variable", name.get_ref().escape_debug());
            around.problems.add_with_help(name.span(), what, "allowed: a name without \"=\"");
        }
        let value = match &variable.value {
            RawValue::Plain(text) if text.contains('\0') => {
                let what = format!(
                    "`env`: the value of {} has a character that no variable can have",
                    name.get_ref()
                );
                around.problems.add(name.span(), what);
                continue;
            }
            RawValue::Plain(text) => {
                if is_secret_name(name.get_ref()) {
                    redact::know(text);
                }
                text.clone()
            }
            RawValue::FromEnv(source) => match (around.env)(source.get_ref()) {
                Some(value) => {
                    let is_named = is_secret_name(name.get_ref()) || is_secret_name(source.get_ref());
                    if is_named || value.len() >= LONG {
                        redact::know(&value);
                    }
                    value
                }
                None => {
                    // Started without it, the server would fail later and in its own, less clear words.
                    let what =
                        format!("the environment variable {} is not set", source.get_ref().escape_debug());
                    let help =
                        format!("set it before taskgate starts; the upstream gets it as {}", name.get_ref());
                    around.problems.add_with_help(source.span(), what, help);
                    continue;
                }
            },
        };
        variables.push((name.get_ref().clone(), value));
    }
    variables
}

//! A recorder on both sides of the gateway: what is relayed is byte for byte what was sent, in every direction.
//!
//! Messages are written as text with everything in them that a parser might respell. Only the members named in
//! [`OWN_META`] and beside each comparison may differ: they belong to one hop, or a version demands them.

use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::json;
use taskgate_client::transport::{Inbound, memory};
use taskgate_gateway::{Gateway, ToolPolicy, UpstreamKind, UpstreamSpec};
use taskgate_task::Payload;
use taskgate_wire::{Id, Message};
use tokio::sync::mpsc;

use crate::harness::at_url::at_url;
use crate::harness::dice::Dice;
use crate::harness::pairs::{differences, member};
use crate::harness::{Child, Era, Modern, Old, Pipe, Server, logs, quick, settings, soon};

/// The members of `_meta` that belong to one hop, or that 2026-07-28 demands.
const OWN_META: &[&str] = &[
    "progressToken",
    "io.modelcontextprotocol/protocolVersion",
    "io.modelcontextprotocol/clientInfo",
    "io.modelcontextprotocol/clientCapabilities",
    "io.modelcontextprotocol/logLevel",
    "io.modelcontextprotocol/serverInfo",
    "io.modelcontextprotocol/related-task",
];

/// Methods that are relayed, each with a member that it cannot be without.
const METHODS: &[(&str, &str)] = &[
    ("tools/call", r#""name":"tool""#),
    ("prompts/get", r#""name":"prompt""#),
    ("resources/read", r#""uri":"x:y""#),
    ("completion/complete", r#""ref":{"type":"ref/prompt","name":"prompt"}"#),
    ("x/custom", r#""any":1.0"#),
];

/// What the upstream is to say to the next request.
struct Script {
    progress: String,
    log: String,
    question: Option<String>,
    answer: Result<String, String>,
}

#[derive(Default)]
struct Tape {
    scripts: VecDeque<Script>,
    /// Params of requests, answers to questions, and errors in their place.
    heard: Vec<String>,
    links: Vec<mpsc::Sender<Inbound>>,
}

type Shared = Arc<Mutex<Tape>>;

/// How the upstream is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    Link,
    Url,
}

pub const WAYS: [(Era, By); 4] =
    [(Era::Session, By::Link), (Era::Modern, By::Link), (Era::Session, By::Url), (Era::Modern, By::Url)];

/// An upstream of this era that follows the tape.
async fn upstream(era: Era, by: By, tape: &Shared) -> UpstreamSpec {
    let tape = tape.clone();
    if by == By::Url {
        let (link, far) = memory::pair(256);
        tape.lock().links.push(far.out.clone());
        tokio::spawn(serve(era, tape, far));
        return UpstreamSpec::new("upstream", at_url(link).await);
    }
    let connect = move || {
        let (link, far) = memory::pair(256);
        tape.lock().links.push(far.out.clone());
        tokio::spawn(serve(era, tape.clone(), far));
        link
    };
    UpstreamSpec::new("upstream", UpstreamKind::InProcess(Arc::new(connect)))
}

pub fn payload(text: &str) -> Payload {
    Payload::parse(text.to_owned()).unwrap_or_else(|error| panic!("{error}: {text}"))
}

async fn serve(era: Era, tape: Shared, far: memory::FarEnd) {
    let memory::FarEnd { mut inbox, out } = far;
    let mut waiting = None;
    while let Some(message) = inbox.recv().await {
        match message {
            Message::Request { id, method, params } => {
                let params = params.map_or_else(String::new, |params| params.as_str().to_owned());
                match simple(era, &method) {
                    Some(answer) => say(&out, reply(id, answer)).await,
                    None => {
                        let script = {
                            let mut tape = tape.lock();
                            tape.heard.push(params.clone());
                            tape.scripts.pop_front()
                        };
                        let Some(script) = script else { continue };
                        waiting = play(&out, id, &params, script).await;
                    }
                }
            }
            Message::Response { result, .. } => {
                tape.lock().heard.push(result.as_str().to_owned());
                if let Some((id, answer)) = waiting.take() {
                    say(&out, reply(id, answer)).await;
                }
            }
            Message::Error { error, .. } => {
                tape.lock().heard.push(error.as_str().to_owned());
                if let Some((id, answer)) = waiting.take() {
                    say(&out, reply(id, answer)).await;
                }
            }
            Message::Notification { .. } => {}
        }
    }
}

/// Says everything of a script; the answer waits if there is a question.
async fn play(
    out: &mpsc::Sender<Inbound>,
    id: Id,
    params: &str,
    script: Script,
) -> Option<(Id, Result<String, String>)> {
    let meta = member(params, "_meta").expect("a _meta");
    let token = member(&meta, "progressToken").expect("a token");
    let progress = format!("{},\"progressToken\":{token}}}", &script.progress[..script.progress.len() - 1]);
    for (method, params) in [("notifications/progress", &progress), ("notifications/message", &script.log)] {
        say(out, Message::Notification { method: method.to_owned(), params: Some(payload(params)) }).await;
    }
    match script.question {
        None => {
            say(out, reply(id, script.answer)).await;
            None
        }
        Some(question) => {
            let method = "sampling/createMessage".to_owned();
            let asked = Message::Request { id: Id::number(1), method, params: Some(payload(&question)) };
            let _ = out.send(Inbound::Message { message: asked, origin: Some(id.clone()) }).await;
            Some((id, script.answer))
        }
    }
}

pub async fn say(out: &mpsc::Sender<Inbound>, message: Message) {
    let _ = out.send(message.into()).await;
}

pub fn reply(id: Id, answer: Result<String, String>) -> Message {
    match answer {
        Ok(result) => Message::Response { id, result: payload(&result) },
        Err(error) => Message::Error { id: Some(id), error: payload(&error) },
    }
}

pub fn simple(era: Era, method: &str) -> Option<Result<String, String>> {
    let capabilities = r#""capabilities":{"tools":{},"logging":{}}"#;
    Some(match (method, era) {
        ("initialize", Era::Session) => Ok(format!(
            r#"{{"protocolVersion":"2025-11-25",{capabilities},"serverInfo":{{"name":"tape","version":"1"}}}}"#
        )),
        ("server/discover", Era::Modern) => {
            Ok(format!(r#"{{"resultType":"complete","supportedVersions":["2026-07-28"],{capabilities}}}"#))
        }
        ("tools/list", _) => Ok(r#"{"tools":[{"name":"tool","inputSchema":{"type":"object"}}]}"#.to_owned()),
        ("initialize" | "server/discover", _) => {
            Err(r#"{"code":-32601,"message":"Method not found"}"#.to_owned())
        }
        ("logging/setLevel", _) => Ok("{}".to_owned()),
        _ if METHODS.iter().any(|(known, _)| *known == method) => return None,
        // What the gateway asks on its own account, such as lists, is not on the tape.
        _ => Err(r#"{"code":-32601,"message":"Method not found"}"#.to_owned()),
    })
}

/// A value with everything a parser might respell.
pub fn value(dice: &mut Dice, depth: usize) -> String {
    let odd = [
        "1e3",
        "1.0",
        "1E400",
        "-1E-400",
        "9007199254740993",
        "-0",
        "-0.0",
        "0.1000",
        "1E+2",
        "123456789012345678901234567890",
        "null",
        "true",
        "false",
        "\"\"",
        r#""\ud800""#,
        r#""\udc00\ud800x""#,
        r#""\u0041\/\b\f\n\r\t\"\\""#,
        r#""\u00e9 é \u2028 😀 \ud83d\ude00""#,
        "\"\u{2028}\u{2029}\u{7f}\u{feff}\"",
        r#""\u0000""#,
        r#"{"a":1,"a":2}"#,
        "[]",
        "{}",
        "[ 1 ,\t2 ]",
        r#"{ "\u0061" : 1 , "" : [ ] }"#,
    ];
    match dice.below(if depth == 0 { 8 } else { 14 }) {
        0..=7 => (*dice.pick(&odd)).to_owned(),
        8 => {
            let levels = 1 + dice.below(600);
            format!("{}{}", "[".repeat(levels), "]".repeat(levels))
        }
        9 => {
            let levels = dice.below(300);
            format!("{}0.0{}", "{\"k\":".repeat(levels), "}".repeat(levels))
        }
        10 | 11 => {
            let items: Vec<String> = (0..dice.below(4)).map(|_| value(dice, depth - 1)).collect();
            format!("[{}]", items.join(" ,"))
        }
        _ => {
            let members: Vec<String> = (0..dice.below(4))
                .map(|_| {
                    format!(
                        "{} :{}",
                        dice.pick(&[r#""k""#, r#""\u006b""#, r#""\ud800""#, r#""é""#]),
                        value(dice, depth - 1)
                    )
                })
                .collect();
            format!("{{{}}}", members.join(","))
        }
    }
}

/// Members of an object, none of which means anything here, with a `_meta` half of the time.
pub fn members(dice: &mut Dice, meta: &str) -> String {
    let names = [
        "x",
        "x/y",
        "unknown",
        r"\u0078\/z",
        "é",
        r"caf\u00e9",
        "😀",
        r"a\tb",
        "",
        "Name",
        " name",
        "content2",
        "com.example/trace",
    ];
    let some = |dice: &mut Dice| {
        let mut text = String::new();
        for _ in 0..dice.below(5) {
            let (name, value) = (*dice.pick(&names), value(dice, 3));
            write!(text, ",\"{name}\":{value}").expect("written");
        }
        text
    };
    let before = some(dice);
    if meta.is_empty() && dice.below(2) == 0 {
        return before;
    }
    let (in_meta, after) = (some(dice), some(dice));
    let in_meta = format!("{meta}{in_meta}");
    format!("{before},\"_meta\":{{{}}}{after}", in_meta.strip_prefix(',').unwrap_or(&in_meta))
}

/// An object of generated members after a known one.
pub fn object(dice: &mut Dice, first: &str) -> String {
    format!("{{{first}{}}}", members(dice, ""))
}

fn script(dice: &mut Dice, asks: bool) -> Script {
    let answer = if dice.below(4) == 0 {
        let data = value(dice, 3);
        Err(format!(
            r#"{{"code":-3207{},"message":"\u00e9\ud800","data":{data},"more":1.0}}"#,
            dice.below(10)
        ))
    } else {
        let content = value(dice, 2);
        Ok(object(dice, &format!(r#""content":[{{"type":"new","x":{content}}}],"isError":false"#)))
    };
    Script {
        progress: object(dice, r#""progress":1.50,"total":2e0"#),
        log: object(dice, r#""level":"info","data":1.0"#),
        question: asks.then(|| object(dice, r#""messages":[],"maxTokens":1e2"#)),
        answer,
    }
}

/// The client's side of the matrix.
enum Client {
    Http(Old),
    Stdio(Box<Pipe>),
    Modern(Box<Modern>, std::net::SocketAddr),
    ModernStdio(Box<Pipe>),
}

impl Client {
    /// Members of `_meta` that this client has to send.
    fn meta(&self) -> String {
        let token = r#""progressToken":"tök\u00e9n""#;
        match self {
            Client::Http(_) | Client::Stdio(_) => token.to_owned(),
            Client::Modern(..) | Client::ModernStdio(_) => format!(
                r#"{token},"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{{"name":"t","version":"1"}},"io.modelcontextprotocol/clientCapabilities":{{"sampling":{{}}}},"io.modelcontextprotocol/logLevel":"debug""#
            ),
        }
    }

    /// Sends a request and returns every message that comes, the answer last. Questions get this answer.
    async fn send(&mut self, method: &str, params: &str, answer: &str) -> Vec<String> {
        let message = format!(r#"{{"jsonrpc":"2.0","id":"ï\u0064","method":"{method}","params":{params}}}"#);
        match self {
            Client::Stdio(pipe) | Client::ModernStdio(pipe) => {
                pipe.write(format!("{message}\n").as_bytes()).await;
                let mut said = Vec::new();
                loop {
                    let line = pipe.line().await.expect("a line");
                    let id = member(&line, "id");
                    if member(&line, "method").is_none() && id.as_deref() == Some(r#""ï\u0064""#) {
                        said.push(line);
                        return said;
                    }
                    if let (Some(id), Some(_)) = (id, member(&line, "method")) {
                        pipe.write(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},{answer}}}\n").as_bytes())
                            .await;
                    }
                    said.push(line);
                }
            }
            Client::Http(old) => {
                let headers =
                    [("Accept", "application/json, text/event-stream"), ("Mcp-Session-Id", &old.session)];
                let stream =
                    crate::harness::http::send(old.address(), "POST", &headers, message.as_bytes()).await;
                let (address, session) = (old.address(), old.session.clone());
                collect(stream, async |id: &str| {
                    let text = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},{answer}}}");
                    let headers = [("Mcp-Session-Id", session.as_str())];
                    let response =
                        crate::harness::http::send(address, "POST", &headers, text.as_bytes()).await;
                    assert_eq!(response.status, 202);
                })
                .await
            }
            Client::Modern(modern, address) => {
                let name = match method {
                    "tools/call" => json!({"name": "tool"}),
                    "prompts/get" => json!({"name": "prompt"}),
                    "resources/read" => json!({"uri": "x:y"}),
                    _ => json!({}),
                };
                let (headers, _) = modern.request(method, name);
                let headers: Vec<(&str, &str)> =
                    headers.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
                let stream = crate::harness::http::send(*address, "POST", &headers, message.as_bytes()).await;
                collect(stream, async |id: &str| panic!("asked {id} on a stream")).await
            }
        }
    }
}

async fn collect(mut stream: crate::harness::http::Response, answer: impl AsyncFn(&str)) -> Vec<String> {
    if !stream.is_stream() {
        return vec![stream.text().await];
    }
    let mut said = Vec::new();
    while let Some(event) = stream.event().await {
        match (member(&event, "id"), member(&event, "method")) {
            (Some(id), Some(_)) => answer(&id).await,
            (Some(_), None) => {
                said.push(event);
                return said;
            }
            _ => {}
        }
        said.push(event);
    }
    said
}

#[track_caller]
pub fn same(what: &str, sent: &str, got: &str, own: &[&str]) {
    let found = differences(sent, got, own, OWN_META);
    assert!(found.is_empty(), "{what}: {found:#?}\nsent {sent}\ngot  {got}");
}

/// 1024 messages through every pair of client and upstream, which is at the other end of a link or at a URL: params to the upstream; results, errors, progress, log
/// messages and questions to the client; answers and refusals back.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_relayed_is_byte_equal() {
    let mut dice = Dice(0x7461_736b);
    for (era, by) in WAYS {
        let tape = Shared::default();
        let upstream = upstream(era, by, &tape).await;
        let builder = Gateway::builder().add(upstream).policy(quick()).settings(settings());
        let gateway = builder.tool("tool", ToolPolicy::never()).build().await.expect("gateway");
        let server = Server::start(gateway).await;
        let capabilities = json!({"sampling": {}});
        let mut stdio = Pipe::start(&server.gateway);
        stdio.initialize("2025-11-25", capabilities.clone()).await.result();
        let clients = [
            Client::Http(Old::with(&server, "2025-11-25", capabilities).await),
            Client::Stdio(Box::new(stdio)),
            Client::Modern(Box::new(Modern::new(&server)), server.addr),
            Client::ModernStdio(Box::new(Pipe::start(&server.gateway))),
        ];
        let mut kept = Vec::new();
        for mut client in clients {
            let session = matches!(client, Client::Http(_) | Client::Stdio(_));
            for number in 0..64 {
                let (method, first) = METHODS[number % METHODS.len()];
                let asks = session && era == Era::Session && number % 3 == 0;
                let script = script(&mut dice, asks);
                let params = format!("{{{first}{}}}", members(&mut dice, &client.meta()));
                let (word, back) = if number % 2 == 0 {
                    ("result", object(&mut dice, r#""role":"assistant""#))
                } else {
                    ("error", format!(r#"{{"code":-1,"message":"\u00e9","data":{}}}"#, value(&mut dice, 3)))
                };
                let expected = (
                    script.progress.clone(),
                    script.log.clone(),
                    script.question.clone(),
                    script.answer.clone(),
                );
                tape.lock().scripts.push_back(script);
                let said =
                    soon("an answer", client.send(method, &params, &format!("\"{word}\":{back}"))).await;
                let heard = std::mem::take(&mut tape.lock().heard);
                let what = format!("{era:?} {by:?} {method} {number}");
                same(&format!("{what} params"), &params, &heard[0], &[]);
                let (progress, log, question, answer) = expected;
                let of = |method: &str| {
                    let quoted = format!("\"{method}\"");
                    let found =
                        said.iter().find(|one| member(one, "method").is_some_and(|name| name == quoted));
                    found.and_then(|one| member(one, "params"))
                };
                same(
                    &format!("{what} progress"),
                    &progress,
                    &of("notifications/progress").expect("progress"),
                    &["progressToken"],
                );
                let token = member(&of("notifications/progress").expect("progress"), "progressToken");
                assert_eq!(token.as_deref(), Some(r#""tök\u00e9n""#));
                assert_eq!(of("notifications/message").as_deref(), Some(log.as_str()), "{what} log");
                if let Some(question) = question {
                    same(
                        &format!("{what} question"),
                        &question,
                        &of("sampling/createMessage").expect("asked"),
                        &[],
                    );
                    assert_eq!(heard[1], back, "{what} answer");
                }
                let last = said.last().expect("an answer");
                assert_eq!(member(last, "id").as_deref(), Some(r#""ï\u0064""#));
                match answer {
                    Ok(result) => {
                        let got = member(last, "result").unwrap_or_else(|| panic!("{what}: {last}"));
                        same(
                            &format!("{what} result"),
                            &result,
                            &got,
                            &["resultType", "ttlMs", "cacheScope"],
                        );
                    }
                    Err(error) => assert_eq!(member(last, "error"), Some(error), "{what} error"),
                }
            }
            kept.push(client);
        }
    }
    logs::clean();
}

/// Notifications that nobody here knows, and that belong to no request, reach a session as they are.
#[tokio::test(flavor = "multi_thread")]
async fn unknown_notifications_are_byte_equal() {
    let mut dice = Dice(0x6e65_7773);
    // Over HTTP 2026-07-28 has no place for what belongs to no request and no subscription.
    for (era, by) in WAYS.into_iter().filter(|way| *way != (Era::Modern, By::Url)) {
        let tape = Shared::default();
        let upstream = upstream(era, by, &tape).await;
        let builder = Gateway::builder().add(upstream).policy(quick()).settings(settings());
        let gateway = builder.build().await.expect("gateway");
        let mut pipe = Pipe::start(&gateway);
        pipe.initialize("2025-11-25", json!({})).await.result();
        pipe.ask("tools/list", json!({})).await.result();
        let link = tape.lock().links.last().expect("a link").clone();
        for number in 0..64 {
            let params = object(&mut dice, r#""first":-0"#);
            let method = format!("notifications/x/{number}");
            say(&link, Message::Notification { method: method.clone(), params: Some(payload(&params)) })
                .await;
            let line = pipe.line().await.expect("a notification");
            assert_eq!(member(&line, "method"), Some(format!("\"{method}\"")));
            same(&method, &params, &member(&line, "params").expect("params"), &[]);
        }
    }
    logs::clean();
}

/// The same through a process: what the child writes back is what it read.
#[tokio::test(flavor = "multi_thread")]
async fn what_goes_through_a_process_is_byte_equal() {
    const ECHO: &str = r#"
import sys
for line in sys.stdin.buffer:
    head, _, params = line.rstrip(b"\n").partition(b',"params":')
    if b'"id":' not in head:
        continue
    id = head.partition(b'"id":')[2].partition(b',')[0]
    if b'"initialize"' in head:
        params = b'{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"echo","version":"1"}}}'
    elif b'"tools/list"' in head:
        params = b'{"tools":[{"name":"tool","inputSchema":{"type":"object"}}]}}'
    elif b'"server/discover"' in head:
        sys.stdout.buffer.write(b'{"jsonrpc":"2.0","id":' + id + b',"error":{"code":-32601,"message":"no"}}\n')
        sys.stdout.buffer.flush()
        continue
    sys.stdout.buffer.write(b'{"jsonrpc":"2.0","id":' + id + b',"result":' + params + b"\n")
    sys.stdout.buffer.flush()
"#;
    let child = Child::new();
    std::fs::write(child.path("echo.py"), ECHO).expect("written");
    let script = child.path("echo.py").to_str().expect("UTF-8").to_owned();
    let command = taskgate_gateway::StdioCommand::new("python3").args([script]);
    let builder = Gateway::builder().upstream_command("echo", command).policy(quick()).settings(settings());
    let gateway = builder.tool("tool", ToolPolicy::never()).build().await.expect("gateway");
    let mut pipe = Pipe::start(&gateway);
    pipe.initialize("2025-11-25", json!({})).await.result();
    let mut client = Client::Stdio(Box::new(pipe));
    let mut dice = Dice(0x6563_686f);
    for number in 0..100 {
        let (method, first) = METHODS[number % METHODS.len()];
        let params = format!("{{{first}{}}}", members(&mut dice, &client.meta()));
        let said = soon("an answer", client.send(method, &params, "")).await;
        let got = member(said.last().expect("an answer"), "result").unwrap_or_else(|| panic!("{said:?}"));
        same(&format!("{method} {number}"), &params, &got, &[]);
    }
    logs::clean();
}

//! The same recorder around tasks that the upstream hosts: what its task asks, is answered and gives is byte for byte what
//! reaches the other side, by `tasks/result` and by `tasks/get`.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use taskgate_client::transport::{Inbound, memory};
use taskgate_gateway::{Gateway, TaskMode, ToolPolicy, UpstreamKind, UpstreamSpec, UpstreamTasks};
use taskgate_wire::{Id, Message};
use tokio::sync::mpsc;

use crate::harness::at_url::at_url;
use crate::harness::dice::Dice;
use crate::harness::pairs::member;
use crate::harness::{Era, Pipe, logs, quick, settings, soon};
use crate::recorder::{By, WAYS, members, object, payload, reply, same, say, value};

/// One task: what it asks first, if anything, and how it ends.
struct Script {
    question: Option<String>,
    end: Result<String, String>,
}

#[derive(Default)]
struct Tape {
    /// What the next task is to do.
    next: Option<Script>,
    tasks: HashMap<String, Script>,
    /// Params of calls, and answers to questions.
    heard: Vec<String>,
    /// Who waits for a result while there is a question.
    waiting: Option<(Id, String)>,
}

type Shared = Arc<Mutex<Tape>>;

const QUESTION: &str = "sampling/createMessage";

async fn serve(era: Era, tape: Shared, far: memory::FarEnd) {
    let memory::FarEnd { mut inbox, out } = far;
    while let Some(message) = inbox.recv().await {
        let params = |params: Option<taskgate_task::Payload>| {
            params.map_or_else(|| "{}".to_owned(), |params| params.as_str().to_owned())
        };
        match message {
            Message::Request { id, method, params: sent } => {
                let sent = params(sent);
                if let Some(answer) = answer(era, &tape, &id, &method, &sent, &out) {
                    say(&out, reply(id, answer)).await;
                }
            }
            Message::Response { result, .. } => {
                let waiting = {
                    let mut tape = tape.lock();
                    tape.heard.push(result.as_str().to_owned());
                    let waiting = tape.waiting.take();
                    waiting.map(|(id, task)| (id, tape.tasks[&task].end.clone()))
                };
                if let Some((id, end)) = waiting {
                    say(&out, reply(id, end)).await;
                }
            }
            Message::Error { .. } | Message::Notification { .. } => {}
        }
    }
}

/// A task in the shape of its era.
fn shape(era: Era, task: &str, status: &str, more: &str) -> String {
    let (ttl, poll) = if era == Era::Session { ("ttl", "pollInterval") } else { ("ttlMs", "pollIntervalMs") };
    format!(
        r#""taskId":"{task}","status":"{status}","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","{ttl}":null,"{poll}":50{more}"#
    )
}

fn answer(
    era: Era,
    tape: &Shared,
    id: &Id,
    method: &str,
    params: &str,
    out: &mpsc::Sender<Inbound>,
) -> Option<Result<String, String>> {
    let tasks = r#""tasks":{"cancel":{},"requests":{"tools":{"call":{}}}},"extensions":{"io.modelcontextprotocol/tasks":{}}"#;
    let task = member(params, "taskId").map(|text| text.trim_matches('"').to_owned()).unwrap_or_default();
    let mut tape = tape.lock();
    Some(match (method, era) {
        ("initialize", Era::Session) => Ok(format!(
            r#"{{"protocolVersion":"2025-11-25","capabilities":{{"tools":{{}},{tasks}}},"serverInfo":{{"name":"tape","version":"1"}}}}"#
        )),
        ("server/discover", Era::Modern) => Ok(format!(
            r#"{{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{{"tools":{{}},{tasks}}}}}"#
        )),
        ("tools/list", _) => Ok(
            r#"{"tools":[{"name":"tool","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}]}"#
                .to_owned(),
        ),
        ("tools/call", _) => {
            tape.heard.push(params.to_owned());
            let task = format!("far-{}", tape.tasks.len() + 1);
            let script = tape.next.take().expect("a script");
            tape.tasks.insert(task.clone(), script);
            let shape = shape(era, &task, "working", "");
            Ok(match era {
                Era::Session => format!(r#"{{"task":{{{shape}}}}}"#),
                _ => format!(r#"{{"resultType":"task",{shape}}}"#),
            })
        }
        ("tasks/get", _) => {
            let script = tape.tasks.get(&task).expect("a task");
            let (status, more) = match (&script.question, &script.end) {
                (Some(question), _) => (
                    "input_required",
                    format!(r#","inputRequests":{{"k":{{"method":"{QUESTION}","params":{question}}}}}"#),
                ),
                (None, Ok(result)) => ("completed", format!(r#","result":{result}"#)),
                (None, Err(error)) => ("failed", format!(r#","error":{error}"#)),
            };
            let more = if era == Era::Session { String::new() } else { format!(r#","resultType":"complete"{more}"#) };
            Ok(format!("{{{}}}", shape(era, &task, status, &more)))
        }
        ("tasks/update", Era::Modern) => {
            let answers = member(params, "inputResponses").expect("answers");
            tape.heard.push(member(&answers, "k").expect("an answer"));
            tape.tasks.get_mut(&task).expect("a task").question = None;
            Ok(r#"{"resultType":"complete"}"#.to_owned())
        }
        ("tasks/result", Era::Session) => {
            let Some(question) = tape.tasks.get_mut(&task).expect("a task").question.take() else {
                return Some(tape.tasks[&task].end.clone());
            };
            tape.waiting = Some((id.clone(), task));
            let asked = Message::Request {
                id: Id::number(1),
                method: QUESTION.to_owned(),
                params: Some(payload(&question)),
            };
            let asked = Inbound::Message { message: asked, origin: Some(id.clone()) };
            out.try_send(asked).expect("room");
            return None;
        }
        _ => Err(r#"{"code":-32601,"message":"Method not found"}"#.to_owned()),
    })
}

/// A client on a pipe, which sees every line as it was written.
struct Client {
    pipe: Pipe,
    era: Era,
    number: u64,
}

impl Client {
    fn meta(&self) -> &'static str {
        match self.era {
            Era::Session => "",
            _ => {
                r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"sampling":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}"#
            }
        }
    }

    /// Sends a request and returns the answer as it was written. `question` is called with a request of the server and says how
    /// it is answered.
    async fn ask(&mut self, method: &str, params: &str, mut question: impl FnMut(&str) -> String) -> String {
        self.number += 1;
        let id = self.number;
        let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#);
        self.pipe.write(format!("{line}\n").as_bytes()).await;
        loop {
            let line = self.pipe.line().await.expect("a line");
            match (member(&line, "id"), member(&line, "method")) {
                (Some(known), None) if known == id.to_string() => return line,
                (Some(asked), Some(_)) => {
                    let answer = question(&line);
                    let line = format!(r#"{{"jsonrpc":"2.0","id":{asked},"result":{answer}}}"#);
                    self.pipe.write(format!("{line}\n").as_bytes()).await;
                }
                _ => {}
            }
        }
    }

    /// About a task.
    fn about(&self, task: &str, more: &str) -> String {
        format!(r#"{{"taskId":"{task}"{more},"_meta":{{{}}}}}"#, self.meta())
    }

    /// Calls the tool, answers what is asked and returns what was asked and how it ended: `result` or `error`, and its text.
    async fn see_through(&mut self, params: &str, back: &str) -> (Option<String>, (&'static str, String)) {
        let created = self.ask("tools/call", params, |line| panic!("{line}")).await;
        let created: Value = serde_json::from_str(&created).expect("JSON");
        let result = &created["result"];
        let task = result["taskId"].as_str().or(result["task"]["taskId"].as_str());
        let task = task.unwrap_or_else(|| panic!("no task: {created}")).to_owned();
        let end_of = |text: &str| match member(text, "result") {
            Some(result) => ("result", result),
            None => ("error", member(text, "error").expect("an end")),
        };
        let mut asked = None;
        if self.era == Era::Session {
            let about = self.about(&task, "");
            let hear = |line: &str| {
                asked = member(line, "params");
                back.to_owned()
            };
            let ended = self.ask("tasks/result", &about, hear).await;
            return (asked, end_of(&ended));
        }
        loop {
            let about = self.about(&task, "");
            let state = self.ask("tasks/get", &about, |line| panic!("{line}")).await;
            let state = member(&state, "result").expect("a state");
            match member(&state, "status").expect("a status").trim_matches('"') {
                "working" => tokio::time::sleep(std::time::Duration::from_millis(5)).await,
                "input_required" => {
                    let open = member(&state, "inputRequests").expect("questions");
                    let open: HashMap<String, Box<serde_json::value::RawValue>> =
                        serde_json::from_str(&open).expect("an object");
                    let (key, question) = open.into_iter().next().expect("a question");
                    asked = member(question.get(), "params");
                    let mut more = String::new();
                    write!(more, r#","inputResponses":{{{}:{back}}}"#, json!(key)).expect("written");
                    let about = self.about(&task, &more);
                    self.ask("tasks/update", &about, |line| panic!("{line}")).await;
                }
                _ => return (asked, end_of(&state)),
            }
        }
    }
}

fn script(dice: &mut Dice, asks: bool) -> Script {
    let end = if dice.below(4) == 0 {
        let data = value(dice, 3);
        Err(format!(
            r#"{{"code":-3207{},"message":"\u00e9\ud800","data":{data},"more":1.0}}"#,
            dice.below(10)
        ))
    } else {
        let content = value(dice, 2);
        Ok(object(dice, &format!(r#""content":[{{"type":"new","x":{content}}}],"isError":false"#)))
    };
    Script { question: asks.then(|| object(dice, r#""messages":[],"maxTokens":1e2"#)), end }
}

/// 192 tasks through every pair of client and upstream, which is at the other end of a link or at a URL.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_hosted_task_asks_and_gives_is_byte_equal() {
    let mut dice = Dice(0x686f_7374);
    for (era, by) in WAYS {
        let tape = Shared::default();
        let (link, far) = memory::pair(256);
        tokio::spawn(serve(era, tape.clone(), far));
        let kind = match by {
            By::Url => at_url(link).await,
            By::Link => {
                let link = Mutex::new(Some(link));
                UpstreamKind::InProcess(Arc::new(move || link.lock().take().expect("it is connected once")))
            }
        };
        let spec = UpstreamSpec { upstream_tasks: UpstreamTasks::Always, ..UpstreamSpec::new("far", kind) };
        let always = ToolPolicy { tasks: TaskMode::Always, ..quick() };
        let builder = Gateway::builder().add(spec).policy(always).settings(settings());
        let gateway = builder.build().await.expect("gateway");
        // The end of a pipe would be the end of the gateway.
        let mut kept = Vec::new();
        for caller in [Era::Session, Era::Modern] {
            let mut pipe = Pipe::start(&gateway);
            if caller == Era::Session {
                pipe.initialize("2025-11-25", json!({"sampling": {}})).await.result();
            }
            let mut client = Client { pipe, era: caller, number: 100 };
            for number in 0..24 {
                let what = format!("{era:?} {by:?} for {caller:?} {number}");
                let script = script(&mut dice, number % 3 == 0);
                let (question, end) = (script.question.clone(), script.end.clone());
                tape.lock().next = Some(script);
                let wish = if caller == Era::Session { r#","task":{}"# } else { "" };
                let meta = client.meta();
                let params = format!("{{\"name\":\"tool\"{wish}{}}}", members(&mut dice, meta));
                let back = object(&mut dice, r#""role":"assistant""#);
                let (asked, ended) = soon("an end", client.see_through(&params, &back)).await;
                let heard = std::mem::take(&mut tape.lock().heard);
                same(&format!("{what} params"), &params, &heard[0], &["task"]);
                if let Some(question) = question {
                    same(&format!("{what} question"), &question, &asked.expect("asked"), &[]);
                    assert_eq!(heard[1], back, "{what} answer");
                }
                match (end, ended) {
                    (Ok(sent), ("result", got)) => {
                        same(&format!("{what} result"), &sent, &got, &["resultType"]);
                    }
                    (Err(sent), ("error", got)) => assert_eq!(got, sent, "{what} error"),
                    (sent, got) => panic!("{what}: {sent:?} became {got:?}"),
                }
            }
            kept.push(client);
        }
    }
    logs::clean();
}

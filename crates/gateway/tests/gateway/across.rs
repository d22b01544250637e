//! One task, made in each generation, ended in each way, and read in each of the others: what is seen of it does not depend on who has
//! made it.

use std::time::Duration;

use serde_json::{Value, json};
use taskgate_gateway::{HostSettings, Settings};

use crate::harness::{
    Board, Era, Host, Modern, Old, Pipe, Server, builder, eventually, form, settings, soon, steps,
};

/// What the tool answers.
fn body() -> Value {
    json!({"content": [{"type": "text", "text": "forty-two"}], "structuredContent": {"n": 1.0}})
}

/// How a task ends, what its tool does for that, and what each generation sees of it: status and result.
const ENDS: [(&str, [&str; 4]); 5] = [
    // 2025-10-20, 2025-11-25, 2026-07-28, words for a host that knows no tasks.
    ("completed", ["completed: forty-two", "completed: forty-two", "completed: forty-two", "forty-two"]),
    ("is error", ["completed: isError E1", "failed: isError E1", "completed: isError E1", "isError E1"]),
    ("error", ["failed: -32602", "failed: -32050 broken", "failed: -32050 broken", "-32050 broken"]),
    ("cancelled", ["cancelled: -32602", "cancelled: -32603", "cancelled", "isError cancelled"]),
    ("answered", ["completed: Ada", "completed: Ada", "completed: Ada", "Ada"]),
];

fn what(end: &str) -> Value {
    let last = match end {
        "completed" => json!({"return": body()}),
        "is error" => json!({"return": {"content": [{"type": "text", "text": "E1"}], "isError": true}}),
        "error" => json!({"error": {"code": -32050, "message": "broken"}}),
        "cancelled" => json!({"wait": "never"}),
        _ => return json!([{"wait": "go"}, {"ask": [form("Who?")]}, {"answers": true}]),
    };
    json!([{"wait": "go"}, last])
}

/// What is told of a result, or of an error in its place.
fn gist(answer: &Value) -> String {
    if let Some(error) = answer.get("error").filter(|error| error.is_object()) {
        let (code, message) = (error["code"].as_i64().expect("a code"), error["message"].as_str());
        return match message {
            Some("broken") => format!("{code} broken"),
            _ => code.to_string(),
        };
    }
    let result = answer.get("result").unwrap_or(answer);
    let text = result["content"][0]["text"].as_str().unwrap_or_default();
    let known = ["forty-two", "E1", "Ada", "cancelled"].into_iter().find(|word| text.contains(word));
    let text = known.unwrap_or(text);
    if result["isError"] == true { format!("isError {text}") } else { text.to_owned() }
}

/// Makes a task in this generation. What must stay open for it to be made is returned.
async fn make(server: &Server, generation: &str, what: &Value) -> Option<(Pipe, Option<Host>)> {
    let arguments = steps(what);
    match generation {
        "2025-10-20" => {
            let mut pipe = Pipe::start(&server.gateway);
            pipe.initialize("2025-06-18", json!({"elicitation": {}})).await.result();
            let meta = json!({"modelcontextprotocol.io/task": {"taskId": "mine", "keepAlive": 60_000}});
            pipe.begin("tools/call", json!({"name": "do", "arguments": arguments, "_meta": meta})).await;
            pipe.find(|message| message["method"] == "notifications/tasks/created").await;
            Some((pipe, None))
        }
        "2025-11-25" => {
            Old::open(server).await.augmented("do", what.clone()).await.task();
            None
        }
        "2026-07-28" => {
            Modern::new(server).task("at_once", what.clone()).await;
            None
        }
        _ => {
            let mut host = Host::open(&server.gateway, "2025-06-18", json!({"elicitation": {}})).await;
            let told = host.call("do", arguments).await;
            assert!(crate::harness::host::told(&told).is_some(), "{told}");
            Some((Pipe::start(&server.gateway), Some(host)))
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_has_made_a_task_it_reads_the_same() {
    for generation in ["2025-10-20", "2025-11-25", "2026-07-28", "no tasks"] {
        for (end, seen) in ENDS {
            let cell = format!("{generation}, {end}");
            let board = Board::new(Era::Session);
            let hosts = HostSettings { budget: Some(Duration::from_millis(300)), ..HostSettings::default() };
            let told = Settings { hosts, single_user: true, ..settings() };
            let server = Server::start(builder(&board).settings(told).build().await.expect("gateway")).await;
            let (old, modern) = (Old::open(&server).await, Modern::new(&server));
            let _open = make(&server, generation, &what(end)).await;
            let page = old.ask("tasks/list", json!({})).await.result().clone();
            let listed = page["tasks"].as_array().expect("tasks").clone();
            let [task] = &listed[..] else { panic!("{cell}: {page}") };
            let id = task["taskId"].as_str().expect("an id").to_owned();
            assert_eq!(
                (&task["status"], modern.get(&id).await["status"].as_str()),
                (&json!("working"), Some("working")),
                "{cell}"
            );
            if end == "cancelled" {
                old.ask("tasks/cancel", json!({"taskId": id})).await.result();
            } else {
                board.open("go");
            }
            if end == "answered" {
                let asked = modern.until(&id, "input_required").await;
                let key = asked["inputRequests"]
                    .as_object()
                    .expect("questions")
                    .keys()
                    .next()
                    .expect("one")
                    .clone();
                modern
                    .update(&id, json!({key: {"action": "accept", "content": {"name": "Ada"}}}))
                    .await
                    .result();
            }
            eventually("the end", || async {
                let status = modern.get(&id).await["status"].clone();
                ["completed", "failed", "cancelled"].iter().any(|end| status == *end).then_some(())
            })
            .await;

            // 2025-10-20, by whatever name the task has there.
            let mut first = Pipe::start(&server.gateway);
            first.initialize("2025-11-25", json!({})).await.result();
            let related = json!({"modelcontextprotocol.io/related-task": {"taskId": id}});
            let about = json!({"taskId": id, "_meta": related});
            let state = first.ask("tasks/get", about.clone()).await.result().clone();
            let result = first.ask("tasks/result", about).await;
            let by_first = format!("{}: {}", state["status"].as_str().expect("a status"), gist(&result.json));
            // 2025-11-25.
            let state = old.get(&id).await;
            let result = old.ask("tasks/result", json!({"taskId": id})).await;
            let by_old = format!("{}: {}", state["status"].as_str().expect("a status"), gist(&result.json));
            // 2026-07-28.
            let state = modern.get(&id).await;
            let status = state["status"].as_str().expect("a status");
            let by_modern = match status {
                "cancelled" => status.to_owned(),
                _ => format!("{status}: {}", gist(&state)),
            };
            // A host that knows no tasks, which is told of such a task by somebody else.
            let mut host = Host::open(&server.gateway, "2025-06-18", json!({})).await;
            let called = host.call("task_result", json!({"task": id}));
            let by_host = gist(&soon("words", called).await);
            assert_eq!([by_first, by_old, by_modern, by_host].each_ref().map(String::as_str), seen, "{cell}");
            // What is over stays so, whoever cancels it.
            assert_eq!(old.ask("tasks/cancel", json!({"taskId": id})).await.code(), -32602, "{cell}");
            modern.ask("tasks/cancel", json!({"taskId": id})).await.result();
            assert_eq!(modern.get(&id).await["status"], status, "{cell}");
        }
    }
}

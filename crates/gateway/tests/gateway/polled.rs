//! Questions of a task on the streams of `tasks/get`, where that is configured.

use std::time::Duration;

use serde_json::{Value, json};
use taskgate_gateway::{
    Gateway, HttpServer, ServerUrl, Settings, Speak, TaskMode, TaskQuestions, ToolPolicy, UpstreamKind,
    UpstreamSpec, UpstreamTasks,
};

use crate::harness::direct::{Reply, gateway, send, settled};
use crate::harness::http::Response;
use crate::harness::{
    Board, Direct, Era, Life, Modern, Old, Server, accept, builder, eventually, form, logs, quick, settings,
    soon,
};

fn polled() -> Settings {
    let mut settings = settings();
    settings.streams.task_questions = TaskQuestions::Get;
    settings
}

/// A gateway whose questions come with polls, a client of it, and its task, which asks for a name.
async fn asking(settings: Settings) -> (Board, Gateway, Direct, Value) {
    let board = Board::new(Era::Session);
    let gateway = gateway(&board, settings).await;
    let client = Direct::open(&gateway, "2025-11-25").await;
    let params = json!({
        "name": "always", "task": {}, "arguments": {"steps": [{"ask": [form("Name?")]}, {"answers": true}]},
    });
    let created = client.request(1, "tools/call", params).await.json().await;
    let task = json!({"taskId": created["result"]["task"]["taskId"]});
    // Another session sees when it asks, and reads no streams, so that nothing is carried to it.
    let viewer = Direct::open(&gateway, "2025-11-25").await;
    let headers = [("Mcp-Session-Id", viewer.session.as_str()), ("Accept", "application/json")];
    let get = json!({"jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": task}).to_string();
    while send(&gateway, "POST", &headers, get.clone()).await.json().await["result"]["status"] == "working" {
        settled().await;
    }
    (board, gateway, client, task)
}

/// What stands on the stream of a poll before its answer, which must say that the task wants input.
async fn questions(mut stream: Reply, id: u64) -> Vec<Value> {
    assert!(stream.is_stream());
    let mut all = stream.rest().await;
    let answer = all.pop().expect("an answer");
    assert_eq!((&answer["id"], &answer["result"]["status"]), (&json!(id), &json!("input_required")));
    all
}

async fn outcome(client: &Direct, task: &Value) -> String {
    let answer = client.request(99, "tasks/result", task.clone()).await.json().await;
    answer["result"]["content"][0]["text"].as_str().expect("a text").to_owned()
}

/// Case 9: what is due stands before the answer of a poll, the stream ends with that, and no other stream gets it, neither
/// the next poll's, nor that of `tasks/result`, nor the general one.
#[tokio::test(start_paused = true)]
async fn a_poll_carries_a_question_once() {
    let (_board, _gateway, client, task) = asking(polled()).await;
    let mut general = client.general().await;
    let asked = questions(client.request(2, "tasks/get", task.clone()).await, 2).await;
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0]["method"], "elicitation/create");
    assert_eq!(asked[0]["params"]["_meta"]["io.modelcontextprotocol/related-task"], task);
    let again = client.request(3, "tasks/get", task.clone()).await;
    assert!(!again.is_stream(), "nothing is due");
    assert_eq!(again.json().await["result"]["status"], "input_required");
    let mut result = client.request(4, "tasks/result", task.clone()).await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    client.respond(&asked[0]["id"], accept("Luca")).await;
    let result = result.rest().await;
    assert_eq!(result.len(), 1, "{result:?}");
    assert_eq!(result[0]["result"]["content"][0]["text"], json!([accept("Luca")]).to_string());
    client.end().await;
    for message in general.rest().await {
        assert_eq!(message["method"], "notifications/tasks/status");
    }
    logs::clean();
}

/// By default a poll is answered with plain JSON, and the question waits for `tasks/result`.
#[tokio::test(start_paused = true)]
async fn a_poll_is_plain_by_default() {
    let (_board, _gateway, client, task) = asking(settings()).await;
    let polled = client.request(2, "tasks/get", task.clone()).await;
    assert!(!polled.is_stream());
    assert_eq!(polled.json().await["result"]["status"], "input_required");
    let mut result = client.request(3, "tasks/result", task).await;
    assert_eq!(result.message().await.expect("a question")["method"], "elicitation/create");
}

/// Case 9: a connection that breaks before the stream has been read to its end makes the question due again, on a poll or
/// elsewhere; a late answer to the first one changes nothing, and nobody sees an error.
#[tokio::test(start_paused = true)]
async fn a_broken_poll_makes_the_question_due_again() {
    let (_board, _gateway, client, task) = asking(polled()).await;
    let mut broken = client.request(2, "tasks/get", task.clone()).await;
    let first = broken.message().await.expect("a question");
    drop(broken);
    settled().await;
    let second = questions(client.request(3, "tasks/get", task.clone()).await, 3).await.remove(0);
    assert_eq!(second["params"], first["params"]);
    assert_ne!(second["id"], first["id"]);
    client.respond(&first["id"], accept("late")).await;
    client.respond(&second["id"], accept("Luca")).await;
    assert_eq!(outcome(&client, &task).await, json!([accept("Luca")]).to_string());
    // Before anything of it was read.
    let (_board, _gateway, client, task) = asking(polled()).await;
    drop(client.request(2, "tasks/get", task.clone()).await);
    settled().await;
    let mut result = client.request(3, "tasks/result", task.clone()).await;
    let asked = result.message().await.expect("a question");
    client.respond(&asked["id"], accept("Luca")).await;
    assert_eq!(result.rest().await.len(), 1);
    logs::clean();
}

/// Polls at the same moment carry the question once.
#[tokio::test(start_paused = true)]
async fn polls_at_the_same_moment_carry_a_question_once() {
    let (_board, _gateway, client, task) = asking(polled()).await;
    let polls = (2..12).map(|id| client.request(id, "tasks/get", task.clone()));
    let mut asked = 0;
    for mut reply in futures_util::future::join_all(polls).await {
        if reply.is_stream() {
            asked += reply.rest().await.len() - 1;
        }
    }
    assert_eq!(asked, 1);
}

/// A question that nobody answers is due again after `replay_for`: what was sent need not have arrived. Whoever answers the
/// first one all the same is heard.
#[tokio::test(start_paused = true)]
async fn a_question_that_nobody_answers_is_asked_again() {
    let (_board, _gateway, client, task) = asking(polled()).await;
    let first = questions(client.request(2, "tasks/get", task.clone()).await, 2).await.remove(0);
    tokio::time::sleep(Duration::from_secs(299)).await;
    assert!(!client.request(3, "tasks/get", task.clone()).await.is_stream());
    tokio::time::sleep(Duration::from_secs(2)).await;
    let second = questions(client.request(4, "tasks/get", task.clone()).await, 4).await;
    assert_eq!(second[0]["params"], first["params"]);
    client.respond(&first["id"], accept("slow")).await;
    assert_eq!(outcome(&client, &task).await, json!([accept("slow")]).to_string());
}

/// A malformed answer leaves the question open; with no stream to ask again on, it comes with the next poll.
#[tokio::test(start_paused = true)]
async fn a_malformed_answer_makes_the_question_due_again() {
    let (_board, _gateway, client, task) = asking(polled()).await;
    for id in 2..8 {
        let asked = questions(client.request(id, "tasks/get", task.clone()).await, id).await.remove(0);
        client.respond(&asked["id"], json!("no object")).await;
        settled().await;
    }
    let asked = questions(client.request(9, "tasks/get", task.clone()).await, 9).await.remove(0);
    client.respond(&asked["id"], accept("Luca")).await;
    assert_eq!(outcome(&client, &task).await, json!([accept("Luca")]).to_string());
}

/// A client that only polls and reads no streams there is asked on the general stream, as ever.
#[tokio::test(flavor = "multi_thread")]
async fn a_poll_that_takes_no_stream_gets_none() {
    let board = Board::new(Era::Session);
    let server = Server::start(builder(&board).settings(polled()).build().await.expect("gateway")).await;
    let old = Old::open(&server).await;
    let mut general = old.stream().await;
    let id = old.augmented("always", json!([{"ask": [form("Name?")]}, {"answers": true}])).await.task();
    let headers = [("Mcp-Session-Id", old.session.as_str()), ("Accept", "application/json")];
    let get = json!({"jsonrpc": "2.0", "id": 7, "method": "tasks/get", "params": {"taskId": id}}).to_string();
    eventually("input_required", || async {
        let polled = crate::harness::http::send(server.addr, "POST", &headers, get.as_bytes()).await;
        polled.text().await.contains("input_required").then_some(())
    })
    .await;
    let asked = soon("the question", question(&mut general)).await;
    old.respond(&asked["id"], accept("Luca")).await;
    old.until(&id, "completed").await;
}

/// A gateway in front of such a server takes the questions that come with its polls, and passes each on once.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_asks_with_polls_is_understood() {
    let board = Board::new(Era::Session);
    let far = Settings { single_user: true, ..polled() };
    let far = Server::start(builder(&board).settings(far).build().await.expect("gateway")).await;
    let url = ServerUrl::parse(&format!("http://{}/mcp", far.addr)).expect("a URL");
    let spec = UpstreamSpec {
        upstream_tasks: UpstreamTasks::Always,
        speak: Speak::Session,
        policy: ToolPolicy { tasks: TaskMode::Always, ..quick() },
        ..UpstreamSpec::new("far", UpstreamKind::Http(HttpServer::new(url)))
    };
    let near = Gateway::builder().add(spec).settings(settings());
    let near = Server::start(near.build().await.expect("gateway")).await;
    let modern = Modern::new(&near);
    let id =
        modern.task("always", json!([{"count": "run"}, {"ask": [form("Name?")]}, {"answers": true}])).await;
    let asked = modern.until(&id, "input_required").await;
    let asked = asked["inputRequests"].as_object().expect("questions").clone();
    assert_eq!(asked.len(), 1);
    let key = asked.keys().next().expect("one");
    modern.update(&id, json!({key: accept("Luca")})).await.result();
    let ended = modern.until(&id, "completed").await;
    assert_eq!(ended["result"]["content"][0]["text"], json!([accept("Luca")]).to_string());
    assert_eq!(board.count("run"), 1);
    logs::clean();
}

async fn question(stream: &mut Response) -> Value {
    loop {
        let message = crate::input::next(stream).await;
        if message["method"] == "elicitation/create" {
            return message;
        }
    }
}

/// Cases 1 and 9: a question stands in the record of its task. After a crash it is due in the next session on whichever stream
/// opens first, that of a poll or of `tasks/result`.
#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_was_out_is_due_after_a_crash() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("tasks.db");
    let board = Board::new(Era::Modern);
    let start = |board: Board| move || builder(&board).settings(polled());
    let mut life = Life::start(&file, start(board.clone())).await;
    let id = Modern::new(life.server())
        .task("always", json!([{"round": {"a": form("Name?")}}, {"answers": true}]))
        .await;
    Modern::new(life.server()).until(&id, "input_required").await;
    let mut params = Vec::new();
    for verb in ["tasks/get", "tasks/get", "tasks/result"] {
        let old = Old::open(life.server()).await;
        let mut stream = old.begin(verb, json!({"taskId": id})).await;
        let asked = soon("the question", question(&mut stream)).await;
        params.push(asked["params"].clone());
        life.kill().await;
        life = Life::start(&file, start(board.clone())).await;
    }
    assert!(params.iter().all(|each| *each == params[0]), "{params:?}");
    let old = Old::open(life.server()).await;
    let mut stream = old.begin("tasks/get", json!({"taskId": id})).await;
    let asked = question(&mut stream).await;
    old.respond(&asked["id"], accept("Luca")).await;
    old.until(&id, "completed").await;
}

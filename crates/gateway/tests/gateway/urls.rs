//! Upstreams that are URLs: a gateway behind a gateway, in both ways they can speak, with whatever happens between them.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use taskgate_gateway::{
    Gateway, GatewayBuilder, Settings, Speak, TaskMode, ToolPolicy, UpstreamSpec, UpstreamState,
    UpstreamTasks,
};

use crate::harness::{
    Board, Era, Life, Modern, Server, Switch, accept, builder, eventually, form, logs, policies, quick,
    serve, settings,
};

const SPEAKS: [Speak; 2] = [Speak::Auto, Speak::Session];

/// A gateway in front of a switch. Every call of `always` and `reader` is a task here.
fn near(switch: &Switch, speak: Speak, upstream_tasks: UpstreamTasks) -> GatewayBuilder {
    let spec = UpstreamSpec { upstream_tasks, ..switch.spec(speak) };
    let always = ToolPolicy { tasks: TaskMode::Always, ..quick() };
    policies(Gateway::builder().add(spec)).tool("reader", always).settings(settings())
}

async fn open(switch: &Switch, speak: Speak, upstream_tasks: UpstreamTasks) -> (Server, Modern) {
    let gateway = near(switch, speak, upstream_tasks).build().await.expect("gateway");
    let server = Server::start(gateway).await;
    up(&server).await;
    let client = Modern::new(&server);
    (server, client)
}

/// Waits until the far server is connected.
async fn up(near: &Server) {
    eventually("the far server", || async {
        matches!(near.gateway.upstream_states()[0].1, UpstreamState::Up(_)).then_some(())
    })
    .await;
}

/// A far gateway that makes no tasks.
async fn plain(board: &Board) -> Server {
    let builder =
        Gateway::builder().add(board.spec("board")).policy(ToolPolicy::never()).settings(settings());
    Server::start(builder.build().await.expect("gateway")).await
}

fn said(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

/// Arguments that go into headers are there, whatever they are, and a far taskgate checks that they say the same.
#[tokio::test(flavor = "multi_thread")]
async fn arguments_travel_in_headers_where_the_tool_wants_it() {
    let board = Board::new(Era::Both);
    let far = plain(&board).await;
    let switch = Switch::start(far.addr).await;
    for speak in SPEAKS {
        let (_near, client) = open(&switch, speak, UpstreamTasks::Never).await;
        let arguments = json!({
            "region": "Zürich\n", "size": -7, "flag": true, "deep": {"er": "=?base64?x?="},
            "steps": [{"return": said("there")}],
        });
        let mut params = json!({"name": "headed", "arguments": arguments});
        // This client sends what a client of ours has to, so that the near gateway lets it pass.
        let (mut headers, body) = client.request("tools/call", params.take());
        for (name, value) in [
            ("Mcp-Param-Region", "=?base64?WsO8cmljaAo=?="),
            ("Mcp-Param-Size", "-7"),
            ("Mcp-Param-Flag", "true"),
            ("Mcp-Param-Deep", "=?base64?PT9iYXNlNjQ/eD89?="),
        ] {
            headers.push((name.to_owned(), value.to_owned()));
        }
        let headers: Vec<(&str, &str)> = headers.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        let answer =
            crate::harness::http::send(_near.addr, "POST", &headers, body.to_string().as_bytes()).await;
        assert_eq!(answer.answer().await.text(), "there", "{speak:?}");
    }
    logs::clean();
}

/// Case 29: after a restart of the far server the next call is made in a new session, the one in flight is reported as
/// interrupted, and neither is made twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_server_is_met_again_and_no_call_is_made_twice() {
    for speak in SPEAKS {
        let board = Board::new(Era::Both);
        let far = plain(&board).await;
        let switch = Switch::start(far.addr).await;
        let (near, client) = open(&switch, speak, UpstreamTasks::Never).await;
        let lost = client.task("always", json!([{"count": "lost"}, {"wait": "for ever"}])).await;
        let again = client
            .task("reader", json!([{"count": "again"}, {"wait": "go"}, {"return": said("twice")}]))
            .await;
        board.until("both run", |board| board.count("lost") + board.count("again") == 2).await;
        let next = plain(&board).await;
        switch.turn(Some(next.addr));
        far.stop();
        let task = client.until(&lost, "failed").await;
        assert!(task["error"]["message"].as_str().is_some_and(|why| why.contains("interrupted")), "{task}");
        // What may be made again is, by its class and not by the way it was sent.
        board.until("it runs again", |board| board.count("again") == 2).await;
        board.open("go");
        client.until(&again, "completed").await;
        let quick = json!([{"count": "next"}, {"return": said("new")}]);
        assert_eq!(client.tool("do", quick).await.text(), "new", "{speak:?}");
        assert_eq!((board.count("lost"), board.count("again"), board.count("next")), (1, 2, 1), "{speak:?}");
        drop(near);
    }
    logs::clean();
}

/// Nothing is in flight when the session is lost, so nobody notices.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_was_lost_unnoticed_costs_no_call() {
    let board = Board::new(Era::Both);
    let (one, two) = (plain(&board).await, plain(&board).await);
    let switch = Switch::start(one.addr).await;
    let (_near, client) = open(&switch, Speak::Session, UpstreamTasks::Never).await;
    for (server, text) in [(&one, "first"), (&two, "second"), (&one, "third")] {
        // New connections only: a general stream that breaks would tell of the change.
        switch.turn(Some(server.addr));
        let what = json!([{"count": text}, {"return": said(text)}]);
        assert_eq!(client.tool("do", what).await.text(), text);
        assert_eq!(board.count(text), 1);
    }
    logs::clean();
}

/// A far server of 2025-11-25 keeps what it says for clients that come back; in 2026-07-28 there is no way back.
#[tokio::test(flavor = "multi_thread")]
async fn a_cut_connection_is_resumed_where_there_is_a_way() {
    for speak in SPEAKS {
        let board = Board::new(Era::Both);
        let far = plain(&board).await;
        let switch = Switch::start(far.addr).await;
        let (_near, client) = open(&switch, speak, UpstreamTasks::Never).await;
        let begun = json!({"progress": {"progress": 1, "message": "begun"}});
        let id = client
            .task("always", json!([{"count": "runs"}, begun, {"wait": "go"}, {"return": said("whole")}]))
            .await;
        eventually("its progress", || async {
            (client.get(&id).await["statusMessage"] == "begun").then_some(())
        })
        .await;
        switch.cut();
        if speak == Speak::Auto {
            let task = client.until(&id, "failed").await;
            assert!(
                task["error"]["message"].as_str().is_some_and(|why| why.contains("interrupted")),
                "{task}"
            );
            // Closing the stream has cancelled it there.
            board.until("it ends there", |board| board.running() == 0).await;
        } else {
            board.open("go");
            let task = client.until(&id, "completed").await;
            assert_eq!(task["result"]["content"][0]["text"], "whole");
        }
        assert_eq!(board.count("runs"), 1);
    }
    logs::clean();
}

/// A far task is the near task: it goes on whatever happens to the near gateway, is asked once, answered once and
/// cancelled with it.
#[tokio::test(flavor = "multi_thread")]
async fn a_far_task_is_taken_up_again_after_a_crash() {
    for speak in SPEAKS {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("tasks.db");
        let board = Board::new(Era::Both);
        let far = serve(&board).await;
        let switch = Switch::start(far.addr).await;
        let life = start(&file, &switch, speak).await;
        let client = Modern::new(life.server());
        let what =
            json!([{"count": "runs"}, {"wait": "ask"}, {"ask": [form("Name?")]}, {"return": said("kept")}]);
        let (id, doomed) = (
            client.task("always", what).await,
            client.task("always", json!([{"count": "doomed"}, {"wait": "for ever"}])).await,
        );
        board.until("both run", |board| board.count("runs") + board.count("doomed") == 2).await;
        for id in [&id, &doomed] {
            checkpointed(&life, id).await;
        }
        life.kill().await;
        let life = start(&file, &switch, speak).await;
        let client = Modern::new(life.server());
        board.open("ask");
        let asking = client.until(&id, "input_required").await;
        let key = asking["inputRequests"].as_object().expect("questions").keys().next().expect("one").clone();
        client.update(&id, json!({ key: accept("Ada") })).await;
        let task = client.until(&id, "completed").await;
        assert_eq!(task["result"]["content"][0]["text"], "kept", "{speak:?}");
        client.ask("tasks/cancel", json!({"taskId": doomed})).await;
        board.until("the far one has ended", |board| board.running() == 0).await;
        assert_eq!((board.count("runs"), board.count("doomed")), (1, 1), "{speak:?}");
        life.kill().await;
    }
}

async fn start(file: &Path, switch: &Switch, speak: Speak) -> Life {
    let switch = switch.clone();
    Life::start(file, move || near(&switch, speak, UpstreamTasks::Always)).await
}

/// Waits until the way back to the far task has been put down.
async fn checkpointed(life: &Life, id: &str) {
    let engine = life.server().gateway.engine().clone();
    eventually("a checkpoint", || async {
        let id = taskgate_gateway::TaskId::parse(id).expect("an id");
        let owner = taskgate_gateway::Owner::anonymous();
        let task = engine.get(&owner, id).await.expect("there");
        task.checkpoint.is_some().then_some(())
    })
    .await;
}

/// Case 29: between two polls the far server is killed and started again, and its task is still followed.
#[tokio::test(flavor = "multi_thread")]
async fn a_far_task_is_followed_through_a_crash_of_the_far_server() {
    for speak in SPEAKS {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("far.db");
        let board = Board::new(Era::Both);
        let start = |board: Board| {
            move || builder(&board).tool("reader", ToolPolicy { tasks: TaskMode::Always, ..quick() })
        };
        let far = Life::start(&file, start(board.clone())).await;
        let switch = Switch::start(far.server().addr).await;
        let (_near, client) = open(&switch, speak, UpstreamTasks::Always).await;
        let id = client
            .task("reader", json!([{"count": "runs"}, {"wait": "go"}, {"return": said("through")}]))
            .await;
        board.until("it runs", |board| board.count("runs") == 1).await;
        switch.turn(None);
        far.kill().await;
        // The near gateway asks in vain, and waits.
        eventually("some tries", || async { (switch.in_vain() >= 3).then_some(()) }).await;
        assert_eq!(client.get(&id).await["status"], "working");
        let far = Life::start(&file, start(board.clone())).await;
        switch.turn(Some(far.server().addr));
        board.until("the far one runs again", |board| board.count("runs") == 2).await;
        board.open("go");
        let task = client.until(&id, "completed").await;
        assert_eq!(task["result"]["content"][0]["text"], "through", "{speak:?}");
        far.kill().await;
    }
}

/// Whoever calls while the server is gone hears which server that is, and is served when it is back.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_gone_is_named() {
    let board = Board::new(Era::Both);
    let far = plain(&board).await;
    let switch = Switch::start(far.addr).await;
    let (near, client) = open(&switch, Speak::Auto, UpstreamTasks::Never).await;
    assert_eq!(client.tool("do", json!([{"return": said("up")}])).await.text(), "up");
    switch.turn(None);
    let answer = client.tool("do", json!([{"count": "never"}])).await;
    assert!(answer.error()["message"].as_str().is_some_and(|why| why.contains("\"far\"")), "{}", answer.json);
    switch.turn(Some(far.addr));
    up(&near).await;
    assert_eq!(client.tool("do", json!([{"return": said("back")}])).await.text(), "back");
    assert_eq!(board.count("never"), 0);
}

/// A gateway that ends in good order leaves no session behind: the next one finds room in a server that has it for one.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_ends_with_its_gateway() {
    let board = Board::new(Era::Both);
    let one = Settings { max_sessions: 1, ..settings() };
    let far = Gateway::builder().add(board.spec("board")).policy(ToolPolicy::never()).settings(one);
    let far = Server::start(far.build().await.expect("gateway")).await;
    let switch = Switch::start(far.addr).await;
    let (first, _) = open(&switch, Speak::Session, UpstreamTasks::Never).await;
    first.stop();
    first.stopped().await;
    let (_second, client) = open(&switch, Speak::Session, UpstreamTasks::Never).await;
    assert_eq!(client.tool("do", json!([{"return": said("room")}])).await.text(), "room");
}

/// Lists that change while the subscription to them is cut off are looked at again.
#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_that_was_cut_off_is_opened_again() {
    let board = Board::new(Era::Both);
    board.offer(|offers| offers.capabilities = json!({"tools": {"listChanged": true}}));
    let far = plain(&board).await;
    let switch = Switch::start(far.addr).await;
    let (near, client) = open(&switch, Speak::Auto, UpstreamTasks::Never).await;
    let listed = async || {
        let tools = client.ask("tools/list", json!({})).await.result()["tools"].clone();
        tools.as_array().expect("tools").iter().map(|tool| tool["name"].to_string()).collect::<Vec<_>>()
    };
    assert!(!listed().await.contains(&"\"late\"".to_owned()));
    switch.cut();
    board.offer(|offers| offers.tools.push(json!({"name": "late", "inputSchema": {"type": "object"}})));
    tokio::time::timeout(Duration::from_secs(20), async {
        while !listed().await.contains(&"\"late\"".to_owned()) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await
    .expect("the new tool is seen");
    drop(near);
}

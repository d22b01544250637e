//! Sessions at upstreams that are URLs: each owner has its own, and nothing of it reaches another.
//!
//! One gateway has two owners at a time here: `local`, over a pipe, and `anonymous`, over HTTP.

use std::time::Duration;

use serde_json::{Value, json};
use taskgate_gateway::{
    Gateway, GatewayBuilder, Owner, Settings, TaskId, ToolPolicy, UpstreamSessions, UpstreamSpec,
    UpstreamTasks,
};

use crate::harness::counter::Counter;
use crate::harness::{
    Board, Era, Life, Modern, Old, Pipe, Server, eventually, eventually_with, logs, quick, settings,
};

/// Nothing is idle for long here.
fn restless() -> Settings {
    Settings { owner_session_idle: Duration::from_millis(600), ..settings() }
}

fn patient() -> Settings {
    Settings { owner_session_idle: Duration::from_secs(600), ..settings() }
}

fn builder(specs: impl IntoIterator<Item = UpstreamSpec>, settings: Settings) -> GatewayBuilder {
    let builder = Gateway::builder().settings(settings);
    specs.into_iter().fold(builder, |builder, spec| builder.add(UpstreamSpec { policy: quick(), ..spec }))
}

async fn serve(specs: impl IntoIterator<Item = UpstreamSpec>, settings: Settings) -> Server {
    Server::start(builder(specs, settings).build().await.expect("gateway")).await
}

async fn count_local(local: &mut Pipe) -> String {
    local.ask("tools/call", json!({"name": "count", "arguments": {}})).await.text().to_owned()
}

async fn count(client: &Old) -> String {
    client.ask("tools/call", json!({"name": "count", "arguments": {}})).await.text().to_owned()
}

fn names(list: &Value) -> Vec<String> {
    let tools = list["tools"].as_array().expect("tools");
    tools.iter().map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
}

/// Case 23: two owners who share the upstream's credentials share nothing it remembers. One owner has one session, whatever it
/// connects with.
#[tokio::test(flavor = "multi_thread")]
async fn owners_do_not_count_each_other() {
    let counter = Counter::start().await;
    let server = serve([counter.spec("counter")], patient()).await;
    let mut local = Pipe::open(&server.gateway).await;
    let mut counted = Vec::new();
    for _ in 0..3 {
        counted.push(count_local(&mut local).await);
    }
    assert_eq!(counted, ["1", "2", "3"]);
    assert_eq!(counter.opened(), 1, "what was there from the start is the first owner's");
    let other = Old::open(&server).await;
    assert_eq!(count(&other).await, "1");
    // Another session of the same owner, and the other era.
    assert_eq!(count(&Old::open(&server).await).await, "2");
    assert_eq!(Modern::new(&server).tool("count", json!([])).await.text(), "3");
    assert_eq!(count_local(&mut local).await, "4");
    assert_eq!(counter.opened(), 2);
    logs::clean();
}

/// Lists, levels, subscriptions and what is said apart from calls reach the owner whose session they belong to.
#[tokio::test(flavor = "multi_thread")]
async fn what_concerns_one_owner_reaches_that_owner() {
    let counter = Counter::start().await;
    let server = serve([counter.spec("counter")], patient()).await;
    let mut local = Pipe::open(&server.gateway).await;
    let other = Old::open(&server).await;
    local.ask("tools/call", json!({"name": "learn", "arguments": {}})).await.result();
    let before = ["count", "learn", "hold", "work"];
    assert_eq!(names(other.ask("tools/list", json!({})).await.result()), before);
    assert_eq!(names(local.ask("tools/list", json!({})).await.result()).len(), 5);

    local.ask("logging/setLevel", json!({"level": "debug"})).await.result();
    other.ask("logging/setLevel", json!({"level": "error"})).await.result();
    local.ask("resources/subscribe", json!({"uri": "x://a"})).await.result();
    let [mine, theirs] = ["debug", "error"].map(|level| counter.where_asked("logging/setLevel", level));
    assert_eq!((mine.len(), theirs.len()), (1, 1));
    assert_ne!(mine, theirs);
    assert_eq!(counter.where_asked("resources/subscribe", "x://a"), mine);

    let mut general = other.stream().await;
    let (mine, theirs) = (&mine[0], &theirs[0]);
    counter.say(mine, "notifications/resources/updated", json!({"uri": "x://a"}));
    counter.say(mine, "notifications/prompts/list_changed", json!({"whose": "local"}));
    counter.say(theirs, "notifications/prompts/list_changed", json!({"whose": "anonymous"}));
    // Each hears its own, and what was said before it was said to it.
    let heard = general.event().await.expect("an event");
    assert!(heard.contains("anonymous"), "{heard}");
    let updated = local.find(|message| message["method"] == "notifications/resources/updated").await;
    assert_eq!(updated["params"]["uri"], "x://a");
    let changed = local.find(|message| message["method"] == "notifications/prompts/list_changed").await;
    assert_eq!(changed["params"]["whose"], "local");
    counter.say(theirs, "notifications/prompts/list_changed", json!({"whose": "again"}));
    let heard = general.event().await.expect("an event");
    assert!(heard.contains("again"), "{heard}");
}

/// A session that nothing uses is ended, but not while a call runs or a subscription is open; the next call opens another.
#[tokio::test(flavor = "multi_thread")]
async fn an_idle_session_is_ended_and_a_busy_one_is_not() {
    let (counter, busy) = (Counter::start().await, Counter::start().await);
    let server = serve(
        [counter.spec("counter"), UpstreamSpec { prefix: Some("busy".into()), ..busy.spec("busy") }],
        restless(),
    )
    .await;
    let mut local = Pipe::open(&server.gateway).await;
    assert_eq!(count_local(&mut local).await, "1");
    let other = Old::open(&server).await;
    assert_eq!(count(&other).await, "1");
    other.ask("logging/setLevel", json!({"level": "error"})).await.result();
    let held = tokio::spawn({
        let other = other.clone();
        async move { other.ask("tools/call", json!({"name": "busy_hold", "arguments": {}})).await }
    });
    busy.until("the call", |busy| !busy.where_asked("tools/call", "hold").is_empty()).await;
    // Two of the times that idle ones have, and some.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!((counter.ended(), busy.ended()), (vec![], vec![]));
    busy.open_gate();
    assert_eq!(held.await.expect("no panic").text(), "held");
    let mut general = other.stream().await;
    for upstream in [&counter, &busy] {
        upstream.until("the end of the session", |upstream| upstream.sessions() == 1).await;
        assert_eq!(upstream.ended(), ["session-2"]);
    }
    // The first owner's is what keeps the server known.
    assert_eq!(count_local(&mut local).await, "2");
    assert_eq!(count(&other).await, "1");
    // What was asked of the session before is asked of this one.
    let asked = |counter: &Counter| counter.where_asked("logging/setLevel", "error");
    counter.until("the level", |counter| asked(counter).len() == 2).await;
    // Whoever has asked for lists before may have missed something.
    let told = general.event().await.expect("an event");
    assert!(told.contains("tools/list_changed"), "{told}");
    other.ask("resources/subscribe", json!({"uri": "x://a"})).await.result();
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(counter.ended(), ["session-2"]);
    logs::clean();
}

/// There are no more owners with sessions than there may be; what is refused says why, and nothing else is.
#[tokio::test(flavor = "multi_thread")]
async fn the_number_of_owners_is_bounded() {
    let (counter, modern) = (Counter::start().await, Counter::modern().await);
    let specs =
        || [counter.spec("counter"), UpstreamSpec { prefix: Some("free".into()), ..modern.spec("modern") }];
    let server = serve(specs(), Settings { max_owner_sessions: 1, ..patient() }).await;
    let mut local = Pipe::open(&server.gateway).await;
    assert_eq!(count_local(&mut local).await, "1");
    let other = Old::open(&server).await;
    assert!(
        names(other.ask("tools/list", json!({})).await.result()).iter().all(|name| name.starts_with("free"))
    );
    let refused = other.ask("tools/call", json!({"name": "count", "arguments": {}})).await;
    assert!(
        refused.error()["message"].as_str().is_some_and(|why| why.contains("counter")),
        "{}",
        refused.raw
    );
    other.ask("tools/call", json!({"name": "free_count", "arguments": {}})).await.result();
    let alone = serve([counter.spec("counter")], Settings { max_owner_sessions: 1, ..patient() }).await;
    let mut local = Pipe::open(&alone.gateway).await;
    assert_eq!(count_local(&mut local).await, "1");
    let refused = Old::open(&alone).await.ask("tools/call", json!({"name": "count", "arguments": {}})).await;
    let why = refused.error()["message"].as_str().expect("a message");
    assert!(why.contains("max_owner_sessions, 1"), "{why}");
    assert_eq!(counter.opened(), 2);
}

/// A server without sessions, and one that is configured so, is one for all.
#[tokio::test(flavor = "multi_thread")]
async fn what_has_no_sessions_is_shared() {
    for (counter, sessions) in [
        (Counter::modern().await, UpstreamSessions::Owner),
        (Counter::start().await, UpstreamSessions::Shared),
    ] {
        let server = serve([UpstreamSpec { sessions, ..counter.spec("counter") }], patient()).await;
        let (mut local, other) = (Pipe::open(&server.gateway).await, Old::open(&server).await);
        assert_eq!((count_local(&mut local).await, count(&other).await), ("1".to_owned(), "2".to_owned()));
        assert_eq!(counter.where_asked("tools/list", "").len(), 1);
        assert!(counter.opened() <= 1);
    }
}

/// A server that has no sessions today may have some tomorrow, and the other way round: from then on each owner has its own, or all
/// have one.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_may_come_back_with_sessions_or_without() {
    let mut counter = Counter::modern().await;
    let server = serve([counter.spec("counter")], patient()).await;
    let (mut local, other) = (Pipe::open(&server.gateway).await, Old::open(&server).await);
    assert_eq!((count_local(&mut local).await, count(&other).await), ("1".to_owned(), "2".to_owned()));
    let call = || json!({"name": "count", "arguments": {}});
    for (modern, counts) in [(false, [["1", "1"], ["2", "2"]]), (true, [["1", "2"], ["3", "4"]])] {
        // Nobody is there for a moment, which whoever calls finds out.
        counter.stop();
        eventually_with(&mut local, "nobody is there", async |local| {
            local.ask("tools/call", call()).await.json.get("error").map(|_| ())
        })
        .await;
        other.ask("tools/call", call()).await.error();
        counter = eventually("the same address", || async { Counter::at(counter.addr, modern).await }).await;
        eventually_with(&mut local, "it is there again", async |local| {
            local.ask("tools/list", json!({})).await.json.get("result").map(|_| ())
        })
        .await;
        eventually("it is there for the other one", || async {
            other.ask("tools/list", json!({})).await.json.get("result").map(|_| ())
        })
        .await;
        for [mine, theirs] in counts {
            let counted = (count_local(&mut local).await, count(&other).await);
            assert_eq!(counted, (mine.to_owned(), theirs.to_owned()), "{modern}");
        }
        assert_eq!(counter.opened(), if modern { 0 } else { 2 });
    }
}

/// A changed configuration holds for every owner's connection.
#[tokio::test(flavor = "multi_thread")]
async fn a_reload_reaches_every_owner() {
    let (before, after) = (Counter::start().await, Counter::start().await);
    let server = serve([before.spec("counter")], Settings { reloads: true, ..patient() }).await;
    let (mut local, other) = (Pipe::open(&server.gateway).await, Old::open(&server).await);
    assert_eq!((count_local(&mut local).await, count(&other).await), ("1".to_owned(), "1".to_owned()));
    let mut general = other.stream().await;
    server.gateway.reload(vec![UpstreamSpec { policy: quick(), ..after.spec("counter") }]).expect("reloaded");
    let told = general.event().await.expect("an event");
    assert!(told.contains("tools/list_changed"), "{told}");
    assert_eq!((count_local(&mut local).await, count(&other).await), ("1".to_owned(), "1".to_owned()));
    assert_eq!((count_local(&mut local).await, count(&other).await), ("2".to_owned(), "2".to_owned()));
    assert_eq!((before.opened(), after.opened()), (2, 2));
    // Policies alone do not cost the session.
    let always = UpstreamSpec { policy: ToolPolicy::always(), ..after.spec("counter") };
    server.gateway.reload(vec![always]).expect("reloaded");
    let modern = Modern::new(&server);
    let task = modern.task("count", json!([])).await;
    assert_eq!(modern.until(&task, "completed").await["result"]["content"][0]["text"], "3");
    assert_eq!(after.opened(), 2);
    // What nobody needs any more is ended, although its owner is active.
    let shared =
        UpstreamSpec { sessions: UpstreamSessions::Shared, policy: quick(), ..after.spec("counter") };
    server.gateway.reload(vec![shared]).expect("reloaded");
    assert_eq!((count_local(&mut local).await, count(&other).await), ("1".to_owned(), "2".to_owned()));
    after
        .until("the end of both sessions", |after| {
            ["session-1", "session-2"]
                .iter()
                .all(|session| after.ended().iter().any(|ended| ended == session))
        })
        .await;
    assert_eq!((count(&other).await, after.opened()), ("3".to_owned(), 3));
}

/// Case 23 after a crash: each owner's task goes on in the session of that owner that it was made in.
#[tokio::test(flavor = "multi_thread")]
async fn tasks_go_on_in_the_sessions_of_their_owners() {
    let counter = Counter::start().await;
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("tasks.db");
    let start = |spec: UpstreamSpec| {
        move || builder([UpstreamSpec { upstream_tasks: UpstreamTasks::Always, ..spec }], restless())
    };
    let life = Life::start(&file, start(counter.spec("counter"))).await;
    let mut local = Pipe::open(&life.server().gateway).await;
    let work = json!({"name": "work", "arguments": {}, "task": {"ttl": 60_000}});
    let mine = local.ask("tools/call", work.clone()).await.task();
    let theirs = Old::open(life.server()).await.ask("tools/call", work).await.task();
    let engine = life.server().gateway.engine().clone();
    for (owner, id) in [(Owner::local(), &mine), (Owner::anonymous(), &theirs)] {
        eventually("a checkpoint", || async {
            let task = engine.get(&owner, TaskId::parse(id).expect("an id")).await.expect("there");
            task.checkpoint.is_some().then_some(())
        })
        .await;
    }
    drop((local, engine));
    life.kill().await;
    let times = || ["task-1", "task-2"].map(|task| counter.times_asked("tasks/get", task));
    let before = times();

    let life = Life::start(&file, start(counter.spec("counter"))).await;
    let more = |now: [usize; 2]| now.iter().zip(before).all(|(now, before)| *now > before);
    counter.until("both are followed", |_| more(times())).await;
    // Longer than idle ones are kept.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let (mut local, other) = (Pipe::open(&life.server().gateway).await, Old::open(life.server()).await);
    count_local(&mut local).await;
    count(&other).await;
    // Calls are made in new sessions, one for each owner.
    let counted = counter.where_asked("tools/call", "count");
    assert_eq!(counted.len(), 2, "{counted:?}");
    assert!(
        !counted.iter().any(|session| ["session-1", "session-2"].contains(&session.as_str())),
        "{counted:?}"
    );
    counter.open_gate();
    other.until(&theirs, "completed").await;
    let result = local.ask("tasks/result", json!({"taskId": mine})).await;
    assert_eq!(result.text(), "result of task-1");
    for method in ["tasks/get", "tasks/result"] {
        assert_eq!(counter.where_asked(method, "task-1"), ["session-1"], "{method}");
        assert_eq!(counter.where_asked(method, "task-2"), ["session-2"], "{method}");
    }
    drop(local);
    life.kill().await;
}

/// Where it is asked for, each owner has a process of its own, whatever it speaks: here, a server in the program, once for each.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_may_be_each_owners_own() {
    let board = Board::new(Era::Both);
    let own = UpstreamSpec { sessions: UpstreamSessions::Owner, ..board.spec("board") };
    let server = serve([own], restless()).await;
    let (mut local, other) = (Pipe::open(&server.gateway).await, Old::open(&server).await);
    let slow = json!({"name": "do", "arguments": {"steps": [{"wait": "go"}]}});
    local.begin("tools/call", slow).await;
    board.until("it runs", |board| board.running() == 1).await;
    other.tool("do", json!([])).await.result();
    assert_eq!((board.count("connections"), board.running()), (2, 1));
    board.open("go");
}

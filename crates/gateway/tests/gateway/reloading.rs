//! Other upstreams while the gateway serves: what runs goes on, what is new is there, and clients are told.

use serde_json::{Value, json};
use taskgate_gateway::{
    BuildError, CommandTool, Gateway, Reloaded, Settings, ToolPolicy, UpstreamKind, UpstreamSpec,
};

use crate::harness::{Board, Era, Modern, Offers, Old, Server, eventually, logs, quick, settings, steps};

/// A server with this tool, and no word of lists that change.
fn board(era: Era, tool: &str) -> Board {
    let tools = vec![json!({"name": tool, "inputSchema": {"type": "object"}})];
    Board::with(era, Offers { tools, capabilities: json!({"tools": {}}), ..Offers::default() })
}

/// As a configuration would have it: with a policy in the spec itself, not over all.
fn spec(board: &Board, name: &str) -> UpstreamSpec {
    UpstreamSpec { policy: quick(), ..board.spec(name) }
}

async fn serve(specs: impl IntoIterator<Item = UpstreamSpec>) -> Server {
    let builder = Gateway::builder().settings(Settings { reloads: true, ..settings() });
    let builder = specs.into_iter().fold(builder, |builder, spec| builder.add(spec));
    Server::start(builder.build().await.expect("gateway")).await
}

fn names(list: &Value) -> Vec<String> {
    let tools = list["tools"].as_array().expect("tools");
    tools.iter().map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
}

fn all(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// A new server is there for those who are connected already; the old one stays connected. Clients are told that lists may
/// change, and that they have.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_server_is_announced() {
    let (one, two) = (board(Era::Both, "first"), board(Era::Session, "second"));
    let kept = spec(&one, "one");
    let server = serve([kept.clone()]).await;
    let (modern, old) = (Modern::new(&server), Old::open(&server).await);
    let said = modern.ask("server/discover", json!({})).await;
    assert_eq!(said.result()["capabilities"]["tools"]["listChanged"], true);
    assert!(said.result()["capabilities"].get("resources").is_none(), "{}", said.raw);
    assert_eq!(names(modern.ask("tools/list", json!({})).await.result()), ["first"]);
    let asked = json!({"notifications": {"toolsListChanged": true}});
    let mut subscribed = modern.open("subscriptions/listen", asked).await;
    let acknowledged: Value = serde_json::from_str(&subscribed.event().await.expect("one")).expect("JSON");
    assert_eq!(acknowledged["params"]["notifications"]["toolsListChanged"], true);
    let mut general = old.stream().await;

    let reloaded = server.gateway.reload(vec![spec(&two, "two"), kept]).expect("reloaded");
    assert_eq!(reloaded, Reloaded { added: all(&["two"]), ..Reloaded::default() });
    for told in [subscribed.event().await, general.event().await] {
        assert!(told.as_deref().is_some_and(|told| told.contains("tools/list_changed")), "{told:?}");
    }
    // In the order of the new configuration.
    assert_eq!(names(modern.ask("tools/list", json!({})).await.result()), ["second", "first"]);
    modern.tool("second", json!([])).await.result();
    old.tool("first", json!([])).await.result();
    assert_eq!((one.count("connections"), two.count("connections")), (1, 1));
    logs::clean();
}

/// What a server does that is gone from the configuration it does to its end, and nothing else any more.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_gone_ends_its_calls() {
    let (one, two) = (board(Era::Both, "first"), board(Era::Both, "second"));
    let kept = spec(&one, "one");
    let server = serve([kept.clone(), spec(&two, "two")]).await;
    let modern = Modern::new(&server);
    let mut always = spec(&two, "two");
    always.policy = ToolPolicy { poll_interval: quick().poll_interval, ..ToolPolicy::always() };
    let changed = server.gateway.reload(vec![kept.clone(), always]).expect("reloaded");
    assert_eq!(changed.changed, ["two"]);
    let task = modern.task("second", json!([{"wait": "go"}, {"return": {"content": [], "x": 1.0}}])).await;
    let asks = json!([{"round": {"q": {"method": "elicitation/create", "params": {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}}}}]);
    let asking = modern.task("second", asks).await;
    modern.until(&asking, "input_required").await;

    let removed = server.gateway.reload(vec![kept]).expect("reloaded");
    assert_eq!(removed, Reloaded { removed: all(&["two"]), ..Reloaded::default() });
    assert_eq!(names(modern.ask("tools/list", json!({})).await.result()), ["first"]);
    assert_eq!(modern.tool("second", json!([])).await.code(), -32602);
    assert_eq!(modern.get(&task).await["status"], "working");
    two.open("go");
    assert_eq!(modern.until(&task, "completed").await["result"]["x"], 1.0);
    // This one would have to be called again, and there is nobody to call.
    modern.update(&asking, json!({"q": {"action": "decline"}})).await.result();
    let failed = modern.until(&asking, "failed").await;
    assert!(failed["statusMessage"].as_str().is_some_and(|why| why.contains("two")), "{failed}");
    assert_eq!(two.count("calls"), 2);
}

/// A server that is reached in another way: its calls end where they are, later ones go to the new one, at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_replaced_by_another() {
    let (before, after) = (board(Era::Session, "work"), board(Era::Modern, "work"));
    let server = serve([spec(&before, "one")]).await;
    let (modern, old) = (Modern::new(&server), Old::open(&server).await);
    let slow = json!([{"wait": "go"}, {"return": {"content": [], "by": "before"}}]);
    let running = tokio::spawn({
        let call = modern.open("tools/call", json!({"name": "work", "arguments": steps(&slow)})).await;
        call.answer()
    });
    before.until("the call", |board| board.running() == 1).await;
    let task = old.augmented("work", slow.clone()).await.task();
    let reloaded = server.gateway.reload(vec![spec(&after, "one")]).expect("reloaded");
    assert_eq!(reloaded.changed, ["one"]);
    let answer = modern.tool("work", json!([{"return": {"content": [], "by": "after"}}])).await;
    assert_eq!(answer.result()["by"], "after");
    before.open("go");
    assert_eq!(running.await.expect("no panic").result()["by"], "before");
    old.until(&task, "completed").await;
    assert_eq!((before.count("calls"), after.count("calls")), (2, 1));
    // Down and up again it is the new one that is called.
    after.drop_links(false).await;
    eventually("the new one again", || async { (after.count("connections") == 2).then_some(()) }).await;
    assert_eq!(before.count("connections"), 1);
}

/// Policies and prefixes count from the next call on, on the same connection, and what has not changed is not touched.
#[tokio::test(flavor = "multi_thread")]
async fn policies_count_from_the_next_call() {
    let one = board(Era::Both, "work");
    let kept = spec(&one, "one");
    let server = serve([kept.clone()]).await;
    let modern = Modern::new(&server);
    modern.tool("work", json!([])).await.result();
    let again = server.gateway.reload(vec![kept.clone()]).expect("reloaded");
    assert!(again.is_nothing());
    let mut other = kept.clone();
    other.prefix = Some("my".to_owned());
    other.tools.insert("work".to_owned(), ToolPolicy::always());
    let asked = json!({"notifications": {"toolsListChanged": true}});
    let mut subscribed = modern.open("subscriptions/listen", asked).await;
    subscribed.event().await.expect("the acknowledgement");
    assert_eq!(server.gateway.reload(vec![other]).expect("reloaded").changed, ["one"]);
    let told = subscribed.event().await;
    assert!(told.as_deref().is_some_and(|told| told.contains("tools/list_changed")), "{told:?}");
    assert_eq!(modern.tool("work", json!([])).await.code(), -32602);
    let task = modern.task("my_work", json!([])).await;
    modern.until(&task, "completed").await;
    assert_eq!(one.count("connections"), 1);
    logs::clean();
}

/// What cannot be changes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_changes_nothing() {
    let one = board(Era::Both, "work");
    let kept = spec(&one, "one");
    let server = serve([kept.clone()]).await;
    let gateway = &server.gateway;
    assert!(matches!(gateway.reload(Vec::new()), Err(BuildError::NoUpstream)));
    let twice = vec![kept.clone(), spec(&board(Era::Both, "other"), "one")];
    assert!(matches!(gateway.reload(twice), Err(BuildError::DuplicateUpstream(name)) if name == "one"));
    let command = UpstreamKind::Command(CommandTool::new("run", ["true"]));
    let homeless = vec![UpstreamSpec::new("run", command)];
    assert!(matches!(gateway.reload(homeless), Err(BuildError::NoPlace(name)) if name == "run"));
    Modern::new(&server).tool("work", json!([])).await.result();
    assert_eq!((gateway.upstream_states().len(), one.count("connections")), (1, 1));
    logs::clean();
}

//! Subscriptions to resources, between any era of the client and any of the upstream.

use serde_json::{Value, json};
use taskgate_gateway::Gateway;

use crate::harness::http::Response;
use crate::harness::{Board, Era, Modern, Offers, Old, Pipe, Server, eventually, policies, serve};

async fn next(stream: &mut Response) -> Value {
    serde_json::from_str(&stream.event().await.expect("an event")).expect("JSON")
}

fn board(era: Era) -> Board {
    Board::with(era, Offers::all(&["p"], &["x://1", "x://2"], &[]))
}

/// Waits until the upstream has exactly these subscriptions.
async fn subscribed(board: &Board, want: &[&str]) {
    board.until(&format!("{want:?}"), |board| board.subscribed() == want).await;
}

const ERAS: [Era; 3] = [Era::Session, Era::Modern, Era::Both];

/// `resources/subscribe` of a session works on an upstream of any era: updates arrive on the general stream, of what was
/// subscribed to and of parts of it only, until it is unsubscribed from.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_subscribes_on_any_upstream() {
    for era in ERAS {
        let board = board(era);
        let server = serve(&board).await;
        let old = Old::open(&server).await;
        let mut stream = old.stream().await;
        let params = json!({"uri": "x://1", "x": 1, "_meta": {"traceparent": "t"}});
        let answer = old.ask("resources/subscribe", params).await.result().clone();
        assert!(answer.get("resultType").is_none(), "{era:?}");
        subscribed(&board, &["x://1"]).await;
        let method = if era == Era::Modern { "subscriptions/listen" } else { "resources/subscribe" };
        let heard = board.heard(method).pop().expect("a request")["params"].clone();
        assert_eq!((&heard["x"], &heard["_meta"]["traceparent"]), (&json!(1), &json!("t")), "{era:?}");
        if era != Era::Modern {
            assert_eq!(answer, json!({"x-own": true}));
        }
        board.say("notifications/resources/updated", Some(json!({"uri": "x://2"}))).await;
        board.update("x://1", "x://1").await;
        board.update("x://1", "x://1/part").await;
        for uri in ["x://1", "x://1/part"] {
            let told = next(&mut stream).await;
            assert_eq!(told["method"], "notifications/resources/updated", "{era:?}");
            assert_eq!(told["params"], json!({"uri": uri}), "{era:?}");
        }
        assert_eq!(old.ask("resources/unsubscribe", json!({"uri": "x://1"})).await.result(), &json!({}));
        subscribed(&board, &[]).await;
        board.say("notifications/resources/updated", Some(json!({"uri": "x://1"}))).await;
        board.say("notifications/resources/list_changed", None).await;
        assert_eq!(next(&mut stream).await["method"], "notifications/resources/list_changed", "{era:?}");
        // What does not exist is refused in the session's words, and leaves nothing behind.
        assert_eq!(
            old.ask("resources/subscribe", json!({"uri": "x://none"})).await.code(),
            -32002,
            "{era:?}"
        );
        assert_eq!(old.ask("resources/subscribe", json!({})).await.code(), -32602, "{era:?}");
        assert!(board.subscribed().is_empty(), "{era:?}");
    }
}

/// `subscriptions/listen` of a 2026-07-28 client works on an upstream of any era. What cannot be honoured is not
/// acknowledged; closing the stream ends the subscription upstream.
#[tokio::test(flavor = "multi_thread")]
async fn a_listener_subscribes_on_any_upstream() {
    for era in ERAS {
        let board = board(era);
        let server = serve(&board).await;
        let filter =
            json!({"resourceSubscriptions": ["x://1", "x://none", "x://2"], "resourcesListChanged": true});
        let modern = Modern::new(&server);
        let mut stream = modern.open("subscriptions/listen", json!({"notifications": filter})).await;
        let acknowledged = next(&mut stream).await;
        assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
        let granted = json!({"resourceSubscriptions": ["x://1", "x://2"], "resourcesListChanged": true});
        assert_eq!(acknowledged["params"]["notifications"], granted, "{era:?}");
        let id = acknowledged["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"].clone();
        board.update("x://2", "x://2").await;
        let told = next(&mut stream).await;
        let want = json!({"uri": "x://2", "_meta": {"io.modelcontextprotocol/subscriptionId": id}});
        assert_eq!(
            (&told["method"], &told["params"]),
            (&json!("notifications/resources/updated"), &want),
            "{era:?}"
        );
        drop(stream);
        subscribed(&board, &[]).await;
    }
}

/// An upstream hears of a resource once however many are interested, and of the end when the last one leaves: by
/// unsubscribing, closing its stream, or ending its session.
#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_is_subscribed_to_once() {
    let board = board(Era::Session);
    let server = serve(&board).await;
    let (one, two) = (Old::open(&server).await, Old::open(&server).await);
    let modern = Modern::new(&server);
    for old in [&one, &one, &two] {
        old.ask("resources/subscribe", json!({"uri": "x://1"})).await.result();
    }
    let filter = json!({"notifications": {"resourceSubscriptions": ["x://1"]}});
    let mut stream = modern.open("subscriptions/listen", filter).await;
    next(&mut stream).await;
    assert_eq!(board.heard("resources/subscribe").len(), 1);
    // Nobody ends what is somebody else's.
    let stranger = Old::open(&server).await;
    stranger.ask("resources/unsubscribe", json!({"uri": "x://1"})).await.result();
    one.ask("resources/unsubscribe", json!({"uri": "x://1"})).await.result();
    assert_eq!(two.end().await, 204);
    board.update("x://1", "x://1").await;
    assert_eq!(next(&mut stream).await["params"]["uri"], "x://1");
    assert!(board.heard("resources/unsubscribe").is_empty());
    drop(stream);
    subscribed(&board, &[]).await;
    assert_eq!(board.heard("resources/unsubscribe").len(), 1);
}

/// Subscriptions are renewed when an upstream comes back, whichever era it is of, and the subscribers are told to look.
#[tokio::test(flavor = "multi_thread")]
async fn subscriptions_outlive_a_restart() {
    for era in [Era::Session, Era::Modern] {
        let board = board(era);
        let server = serve(&board).await;
        let old = Old::open(&server).await;
        old.ask("resources/subscribe", json!({"uri": "x://1"})).await.result();
        let filter = json!({"notifications": {"resourceSubscriptions": ["x://2"]}});
        let mut stream = Modern::new(&server).open("subscriptions/listen", filter).await;
        next(&mut stream).await;
        let mut general = old.stream().await;
        board.drop_links(false).await;
        for (stream, uri) in [(&mut general, "x://1"), (&mut stream, "x://2")] {
            let mut told = next(stream).await;
            while told["method"].as_str().expect("a method").ends_with("list_changed") {
                told = next(stream).await;
            }
            assert_eq!(told["method"], "notifications/resources/updated");
            assert_eq!(told["params"]["uri"], uri);
            board.update(uri, uri).await;
            assert_eq!(next(stream).await["params"]["uri"], uri, "{era:?}");
        }
    }
}

/// With several upstreams a subscription goes to the one that has the resource, also where only a template says so.
#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_goes_to_whoever_has_the_resource() {
    let (one, two) =
        (board(Era::Session), Board::with(Era::Modern, Offers::all(&[], &["y://1"], &["z://{a}"])));
    let builder = Gateway::builder().add(one.spec("one")).add(two.spec("two"));
    let server = Server::start(policies(builder).build().await.expect("gateway")).await;
    let old = Old::open(&server).await;
    for uri in ["x://1", "y://1", "z://any"] {
        old.ask("resources/subscribe", json!({"uri": uri})).await.result();
    }
    assert_eq!(
        (one.subscribed(), two.subscribed()),
        (vec!["x://1".to_owned()], vec!["y://1".to_owned(), "z://any".to_owned()])
    );
    assert_eq!(old.ask("resources/subscribe", json!({"uri": "none://1"})).await.code(), -32002);
    old.ask("resources/unsubscribe", json!({"uri": "y://1"})).await.result();
    subscribed(&two, &["z://any"]).await;
}

/// A client has a bounded number of subscriptions, and is told the bound.
#[tokio::test(flavor = "multi_thread")]
async fn subscriptions_are_bounded() {
    let board = Board::with(Era::Modern, Offers::all(&[], &[], &["x://{n}"]));
    let server = serve(&board).await;
    let mut pipe = Pipe::open(&server.gateway).await;
    for n in 0..1000 {
        pipe.ask("resources/subscribe", json!({"uri": format!("x://{n}")})).await.result();
    }
    let refused = pipe.ask("resources/subscribe", json!({"uri": "x://more"})).await;
    assert_eq!(refused.code(), -32602);
    assert!(refused.raw.contains("at most 1000"), "{}", refused.raw);
    let uris: Vec<String> = (0..1001).map(|n| format!("x://{n}")).collect();
    let filter = json!({"notifications": {"resourceSubscriptions": uris}});
    assert_eq!(Modern::new(&server).ask("subscriptions/listen", filter).await.code(), -32602);
    assert_eq!(board.subscribed().len(), 1000);
}

/// List changes are granted to a listener only if an upstream says that it tells of them.
#[tokio::test(flavor = "multi_thread")]
async fn list_changes_are_granted_as_they_are_declared() {
    let mut offers = Offers::all(&[], &[], &[]);
    offers.capabilities =
        json!({"tools": {}, "prompts": {"listChanged": true}, "resources": {"subscribe": true}});
    let board = Board::with(Era::Modern, offers);
    let server = serve(&board).await;
    let filter = json!({"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true});
    let mut stream =
        Modern::new(&server).open("subscriptions/listen", json!({"notifications": filter})).await;
    assert_eq!(next(&mut stream).await["params"]["notifications"], json!({"promptsListChanged": true}));
    let heard =
        eventually("the gateway's own subscription", || async { board.heard("subscriptions/listen").pop() })
            .await;
    assert_eq!(heard["params"]["notifications"], json!({"promptsListChanged": true}));
}

/// A part of a filter that only an upstream knows is its business: what it honours is acknowledged, what it tells arrives
/// under the caller's subscription, and when it goes the subscription ends in good order.
#[tokio::test(flavor = "multi_thread")]
async fn an_extensions_subscription_passes_through() {
    let board = board(Era::Modern);
    let server = serve(&board).await;
    let filter = json!({"x/own": {"n": 1.5}, "resourceSubscriptions": ["x://1"]});
    let mut stream =
        Modern::new(&server).open("subscriptions/listen", json!({"notifications": filter})).await;
    let acknowledged = next(&mut stream).await;
    assert_eq!(acknowledged["params"]["notifications"], filter);
    let opened = board.heard("subscriptions/listen");
    let theirs = opened.iter().find(|heard| heard["params"]["notifications"].get("x/own").is_some());
    let theirs = theirs.expect("its part")["id"].clone();
    let meta = json!({"io.modelcontextprotocol/subscriptionId": theirs, "k": 1});
    board.say("notifications/x/own", Some(json!({"_meta": meta, "y": 2}))).await;
    let told = next(&mut stream).await;
    assert_eq!((&told["method"], &told["params"]["y"]), (&json!("notifications/x/own"), &json!(2)));
    let id = "io.modelcontextprotocol/subscriptionId";
    assert_eq!(told["params"]["_meta"][id], acknowledged["params"]["_meta"][id]);
    assert_eq!(told["params"]["_meta"]["k"], 1);
    board.drop_links(true).await;
    assert_eq!(next(&mut stream).await["result"]["resultType"], "complete");
    // Where nobody knows it, it is not acknowledged.
    let server = serve(&self::board(Era::Session)).await;
    let mut stream =
        Modern::new(&server).open("subscriptions/listen", json!({"notifications": {"x/own": 1}})).await;
    assert_eq!(next(&mut stream).await["params"]["notifications"], json!({}));
}

/// Those who listen are told to list again when an upstream has come back, as far as it tells of changes at all.
#[tokio::test(flavor = "multi_thread")]
async fn lists_are_to_be_looked_at_again_after_a_restart() {
    let board = board(Era::Session);
    let server = serve(&board).await;
    let old = Old::open(&server).await;
    let mut stream = old.stream().await;
    board.drop_links(false).await;
    for list in ["tools", "prompts", "resources"] {
        assert_eq!(next(&mut stream).await["method"], format!("notifications/{list}/list_changed"));
    }
}

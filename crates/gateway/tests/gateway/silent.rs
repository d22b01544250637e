//! Upstreams that run but no longer list what they have: whom they delay, for how long, and what they keep. The clock is
//! paused, so that what is waited for can be measured.

use std::time::Duration;

use serde_json::{Value, json};
use taskgate_gateway::Gateway;

use crate::harness::{Board, Era, Offers, Pipe, policies};

/// How long a server has for a list.
const LISTING: Duration = Duration::from_secs(5);

fn board(name: &str, prompts: &[&str], resources: &[&str], templates: &[&str]) -> Board {
    let mut offers = Offers::all(prompts, resources, templates);
    offers.instructions = name.to_owned();
    Board::with(Era::Session, offers)
}

/// A gateway in front of these, once all are up.
async fn open(boards: [(&str, &Board); 2]) -> Pipe {
    let builder = Gateway::builder().add(boards[0].1.spec(boards[0].0)).add(boards[1].1.spec(boards[1].0));
    let gateway = policies(builder).build().await.expect("gateway");
    let pipe = Pipe::open(&gateway).await;
    for (_, board) in boards {
        board.until("its start", |board| !board.heard("tools/list").is_empty()).await;
    }
    pipe
}

fn hush(board: &Board, hush: bool) {
    board.offer(|offers| offers.hangs = hush);
}

/// Who answers, and how long that takes.
async fn timed(pipe: &mut Pipe, method: &str, params: Value) -> (String, Duration) {
    let since = tokio::time::Instant::now();
    let id = pipe.begin(method, params).await;
    // The harness gives up on a real client sooner than this on a paused clock.
    let answer = loop {
        let line = pipe.read_line_patiently().await;
        let message: Value = serde_json::from_str(&line).expect("JSON");
        if message["id"] == id {
            break message;
        }
    };
    let result = &answer["result"];
    let text = result["x-from"].as_str().or_else(|| result["contents"][0]["text"].as_str());
    let text = text.map_or_else(|| answer["error"]["message"].to_string(), ToOwned::to_owned);
    (text, since.elapsed())
}

async fn prompt(pipe: &mut Pipe, name: &str) -> (String, Duration) {
    timed(pipe, "prompts/get", json!({"name": name})).await
}

async fn resource(pipe: &mut Pipe, uri: &str) -> (String, Duration) {
    timed(pipe, "resources/read", json!({"uri": uri})).await
}

fn at_once(who: &str) -> (String, Duration) {
    (who.to_owned(), Duration::ZERO)
}

/// A server that comes later in the order cannot have what an earlier one lists. Whether it has the same name, which would
/// have to be said with a prefix, is waited for once.
#[tokio::test(start_paused = true)]
async fn a_silent_server_behind_the_right_one_is_not_waited_for() {
    let healthy = board("healthy", &["p"], &["x://1"], &["t://{a}"]);
    let frozen = board("frozen", &["q"], &["y://1"], &[]);
    let mut pipe = open([("healthy", &healthy), ("frozen", &frozen)]).await;
    hush(&frozen, true);
    assert_eq!(resource(&mut pipe, "x://1").await, at_once("healthy"));
    assert_eq!(prompt(&mut pipe, "p").await, ("healthy".to_owned(), LISTING));
    // Nobody had to wait for its resources until it was known to be silent.
    for _ in 0..2 {
        assert_eq!(prompt(&mut pipe, "p").await, at_once("healthy"));
        assert_eq!(resource(&mut pipe, "t://any").await, at_once("healthy"));
    }
}

/// A server that comes first and never listed anything is waited for once, not at every call, until it answers: then what it
/// lists is its own again.
#[tokio::test(start_paused = true)]
async fn a_silent_server_before_the_right_one_is_waited_for_once() {
    let frozen = board("frozen", &["p", "q"], &["x://1", "y://1"], &[]);
    let healthy = board("healthy", &["p"], &["x://1"], &[]);
    let mut pipe = open([("frozen", &frozen), ("healthy", &healthy)]).await;
    hush(&frozen, true);
    assert_eq!(prompt(&mut pipe, "p").await, ("healthy".to_owned(), LISTING));
    assert_eq!(resource(&mut pipe, "x://1").await, ("healthy".to_owned(), LISTING));
    for _ in 0..3 {
        assert_eq!(prompt(&mut pipe, "p").await, at_once("healthy"));
        assert_eq!(resource(&mut pipe, "x://1").await, at_once("healthy"));
        tokio::time::sleep(LISTING * 2).await;
    }
    // A name that nobody else has may be its own. Who knows it is asked, and who could not be asked is named.
    let (unknown, _) = prompt(&mut pipe, "q").await;
    assert!(unknown.contains("Unknown prompt: q (not available: \\\"frozen\\\")"), "{unknown}");
    tokio::time::sleep(LISTING * 2).await;
    let asked = frozen.heard("resources/list").len();
    hush(&frozen, false);
    assert_eq!(prompt(&mut pipe, "q").await, at_once("frozen"));
    assert!(prompt(&mut pipe, "p").await.0.contains("Unknown prompt: p"), "both have it now");
    assert_eq!(prompt(&mut pipe, "healthy_p").await, at_once("healthy"));
    // Whoever looks first is not kept waiting, but sees to it that the list is fetched.
    assert_eq!(resource(&mut pipe, "x://1").await, at_once("healthy"));
    frozen.until("its list is asked for", |board| board.heard("resources/list").len() > asked).await;
    pipe.ping().await;
    assert_eq!(resource(&mut pipe, "x://1").await, at_once("frozen"));
}

/// What a silent server listed last is still its own: a clash is decided as if it had said nothing.
#[tokio::test(start_paused = true)]
async fn what_a_silent_server_listed_last_stands() {
    let frozen = board("frozen", &["p"], &["x://1"], &["t://{a}"]);
    let healthy = board("healthy", &["p"], &["x://1", "y://1"], &["t://{a}"]);
    let mut pipe = open([("frozen", &frozen), ("healthy", &healthy)]).await;
    for list in ["prompts/list", "resources/list", "resources/templates/list"] {
        pipe.ask(list, json!({})).await.result();
    }
    hush(&frozen, true);
    assert_eq!(resource(&mut pipe, "y://1").await, at_once("healthy"));
    for changed in ["prompts", "resources"] {
        frozen.say(&format!("notifications/{changed}/list_changed"), None).await;
        pipe.find(|said| said["method"] == format!("notifications/{changed}/list_changed")).await;
    }
    assert_eq!(prompt(&mut pipe, "healthy_p").await, ("healthy".to_owned(), LISTING));
    assert_eq!(resource(&mut pipe, "y://1").await, ("healthy".to_owned(), LISTING));
    for _ in 0..2 {
        assert_eq!(prompt(&mut pipe, "healthy_p").await, at_once("healthy"));
        assert_eq!(prompt(&mut pipe, "frozen_p").await, at_once("frozen"));
        assert_eq!(resource(&mut pipe, "x://1").await, at_once("frozen"));
        assert_eq!(resource(&mut pipe, "t://any").await, at_once("frozen"));
        assert_eq!(resource(&mut pipe, "y://1").await, at_once("healthy"));
    }
}

/// Where nothing says who has a resource, those are asked first who answer.
#[tokio::test(start_paused = true)]
async fn a_guess_is_made_at_a_silent_server_last() {
    let frozen = board("frozen", &[], &["x://1"], &[]);
    let healthy = board("healthy", &[], &[], &["{+any}"]);
    let mut pipe = open([("frozen", &frozen), ("healthy", &healthy)]).await;
    hush(&frozen, true);
    let healthy_has =
        |offers: &mut Offers| offers.templates = vec![json!({"uriTemplate": "u://{a}", "name": "u"})];
    pipe.ask("resources/templates/list", json!({})).await.result();
    healthy.offer(healthy_has);
    assert_eq!(resource(&mut pipe, "u://1").await.0, "healthy");
    assert_eq!(resource(&mut pipe, "u://1").await, at_once("healthy"));
    assert!(frozen.heard("resources/read").is_empty());
    assert_eq!(resource(&mut pipe, "x://1").await, at_once("frozen"));
}

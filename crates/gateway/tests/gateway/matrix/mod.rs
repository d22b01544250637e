//! Every client version in front of every server version, over every transport on both sides: each feature has one expected outcome.

mod client;
mod server;
mod url;

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use taskgate_gateway::Gateway;

use crate::harness::{Server, settings};
use client::{Client, Wire};
use server::Strict;

/// A version, oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    V2025Mar,
    V2025Jun,
    V2025Nov,
    V2026,
}

impl Version {
    const ALL: [Version; 4] = [Version::V2025Mar, Version::V2025Jun, Version::V2025Nov, Version::V2026];

    fn date(self) -> &'static str {
        match self {
            Version::V2025Mar => "2025-03-26",
            Version::V2025Jun => "2025-06-18",
            Version::V2025Nov => "2025-11-25",
            Version::V2026 => "2026-07-28",
        }
    }
}

/// What is tried in each cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Feature {
    List,
    Call,
    Error,
    Progress,
    Log,
    Elicitation,
    Sampling,
    Roots,
    Cancel,
    Subscribe,
    Resource,
    Missing,
    Prompt,
    Completion,
}

const FEATURES: [Feature; 14] = [
    Feature::List,
    Feature::Call,
    Feature::Error,
    Feature::Progress,
    Feature::Log,
    Feature::Elicitation,
    Feature::Sampling,
    Feature::Roots,
    Feature::Resource,
    Feature::Missing,
    Feature::Prompt,
    Feature::Completion,
    Feature::Cancel,
    Feature::Subscribe,
];

/// What a cell shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// It works as if client and server were of the same version.
    Works,
    /// The server's question is refused: the client's version cannot be asked that.
    Refused,
    /// The server's version does not have it, and its own error arrives.
    Absent,
}

/// The table: everything works, but elicitation, which 2025-03-26 does not have.
fn expected(client: Version, server: Version, feature: Feature) -> Outcome {
    match (feature, client, server) {
        (Feature::Elicitation, _, Version::V2025Mar) => Outcome::Absent,
        (Feature::Elicitation, Version::V2025Mar, _) => Outcome::Refused,
        _ => Outcome::Works,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_version_in_front_of_every_version() {
    let mut pairs = Vec::new();
    for server in Version::ALL {
        for client in Version::ALL {
            for (wire, is_url) in
                [(Wire::Http, false), (Wire::Stdio, false), (Wire::Http, true), (Wire::Stdio, true)]
            {
                let behind = if is_url { "at a URL" } else { "on a link" };
                let name = format!("{} over {wire:?} in front of {} {behind}", client.date(), server.date());
                let wrong = Wrong::default();
                pairs.push((name, wrong.clone(), tokio::spawn(pair(client, server, wire, is_url, wrong))));
            }
        }
    }
    let cells = pairs.len() * FEATURES.len();
    assert_eq!(cells, 4 * 4 * 4 * 14);
    let mut wrong = Vec::new();
    for (name, seen, pair) in pairs {
        if let Err(broken) = pair.await {
            seen.lock().push(format!("broke off: {broken}"));
        }
        wrong.extend(seen.lock().drain(..).map(|what| format!("{name}: {what}")));
    }
    assert!(wrong.is_empty(), "{} faults in {cells} cells:\n{}", wrong.len(), wrong.join("\n"));
}

/// What was wrong on a connection, as far as it came.
type Wrong = Arc<Mutex<Vec<String>>>;

/// Tries everything on one connection.
async fn pair(client_version: Version, server_version: Version, wire: Wire, is_url: bool, wrong: Wrong) {
    let strict = Strict::new(server_version);
    let spec = if is_url { url::serve(strict.clone()).await } else { strict.spec() };
    let builder = Gateway::builder().add(spec).settings(settings()).single_user(true);
    let server = Server::start(builder.build().await.expect("gateway")).await;
    let mut client = Client::connect(client_version, wire, &server).await;
    for feature in FEATURES {
        let want = expected(client_version, server_version, feature);
        let seen = observe(&mut client, client_version, &strict, feature).await;
        if seen != Ok(want) {
            wrong.lock().push(format!("{feature:?}: wanted {want:?}, saw {seen:?}"));
        }
        wrong.lock().extend(strict.faults().into_iter().map(|fault| format!("{feature:?}: {fault}")));
    }
}

/// Tries a feature and says what became of it; what fits no outcome is told as it was.
async fn observe(
    client: &mut Client,
    version: Version,
    server: &Strict,
    feature: Feature,
) -> Result<Outcome, String> {
    let modern = version == Version::V2026;
    let works = |is: bool, seen: &Value| if is { Ok(Outcome::Works) } else { Err(seen.to_string()) };
    let call = |name: &str| json!({"name": name, "arguments": {"text": "é\u{1f980}"}});
    match feature {
        Feature::List => {
            let tools = client.ask("tools/list", json!({})).await.answer;
            let prompts = client.ask("prompts/list", json!({})).await.answer;
            let resources = client.ask("resources/list", json!({})).await.answer;
            let kept = tools["result"]["tools"][0]["x-unknown"] == json!({"kept": 1.0})
                && prompts["result"]["prompts"][0] == json!({"name": "greet", "x-unknown": [1e3]})
                && resources["result"]["resources"][0]["uri"] == "matrix://a";
            let all = json!([tools, prompts, resources]);
            let worded = [&tools, &prompts, &resources].iter().all(|answer| {
                let result = &answer["result"];
                let members = ["resultType", "ttlMs", "cacheScope"].map(|name| result.get(name).is_some());
                members == [modern; 3]
            });
            works(kept && worded, &all)
        }
        Feature::Call => {
            let talk = client.ask("tools/call", call("echo")).await;
            let worded = talk.answer["result"].get("resultType").is_some() == modern;
            works(talk.text() == "é\u{1f980}" && worded, &talk.answer)
        }
        Feature::Error => {
            let talk = client.ask("tools/call", call("fail")).await;
            let want = json!({"code": -32050, "message": "No.", "data": {"why": [1.0, null]}});
            works(talk.answer["error"] == want, &talk.answer)
        }
        Feature::Progress => {
            let mut params = call("progress");
            params["_meta"] = json!({"progressToken": "mine"});
            let talk = client.ask("tools/call", params).await;
            let note = talk.note("notifications/progress").map(|note| note["params"].clone());
            let is = note.as_ref().is_some_and(|note| note["progressToken"] == "mine" && note["total"] == 2);
            works(is && talk.text() == "done", &json!([talk.answer, note]))
        }
        Feature::Log => {
            let mut params = call("log");
            if modern {
                params["_meta"] = json!({"io.modelcontextprotocol/logLevel": "info"});
            } else {
                let set = client.ask("logging/setLevel", json!({"level": "info"})).await.answer;
                if set["result"] != json!({}) {
                    return Err(format!("setLevel: {set}"));
                }
            }
            let talk = client.ask("tools/call", params).await;
            let note = talk.note("notifications/message").map(|note| note["params"].clone());
            let is = note.as_ref().is_some_and(|note| note["data"] == json!({"said": 1.0}));
            works(is, &json!([talk.answer, note]))
        }
        Feature::Elicitation => asked(client, "elicit", "Ada").await,
        Feature::Sampling => asked(client, "sample", "said").await,
        Feature::Roots => asked(client, "roots", "file:///r").await,
        Feature::Cancel => {
            let held = client.hold().await;
            server.held().await;
            client.cancel(held).await;
            server.cancelled().await;
            Ok(Outcome::Works)
        }
        Feature::Subscribe => {
            let note = client.subscribed(server.touch()).await;
            server.unsubscribed().await;
            let named = !note["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"].is_null();
            works(note["params"]["uri"] == "matrix://a" && named == modern, &note)
        }
        Feature::Resource => {
            let read = client.ask("resources/read", json!({"uri": "matrix://a"})).await.answer;
            works(read["result"]["contents"] == json!([{"uri": "matrix://a", "text": "A"}]), &read)
        }
        Feature::Missing => {
            let read = client.ask("resources/read", json!({"uri": "matrix://b"})).await.answer;
            let code = if modern { -32602 } else { -32002 };
            works(read["error"]["code"] == code && read["error"]["data"]["uri"] == "matrix://b", &read)
        }
        Feature::Prompt => {
            let params = json!({"name": "greet", "arguments": {"who": "Ada"}});
            let got = client.ask("prompts/get", params).await.answer;
            works(got["result"]["messages"][0]["content"]["text"] == "Hello Ada", &got)
        }
        Feature::Completion => {
            let params = json!({
                "ref": {"type": "ref/prompt", "name": "greet"},
                "argument": {"name": "who", "value": "a"},
            });
            let got = client.ask("completion/complete", params).await.answer;
            works(got["result"]["completion"]["values"] == json!(["ada"]), &got)
        }
    }
}

async fn asked(client: &mut Client, tool: &str, answer: &str) -> Result<Outcome, String> {
    let talk = client.ask("tools/call", json!({"name": tool, "arguments": {}})).await;
    match talk.text() {
        "refused" => Ok(Outcome::Refused),
        text if text.contains(answer) => Ok(Outcome::Works),
        _ if talk.answer["error"]["code"] == -32602 => Ok(Outcome::Absent),
        _ => Err(talk.answer.to_string()),
    }
}

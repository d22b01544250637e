//! Who is let in, and what each may: with tokens of the configuration. Tokens of issuers are the crate's `access` to try, and the
//! proof's with a real one.

use std::sync::Arc;

use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use parking_lot::Mutex;
use serde_json::{Value, json};
use taskgate_gateway::access::{AccessConfig, Issuer, Proxy, Resource, Rights, StaticToken, TokenHash};
use taskgate_gateway::{Gateway, HttpServer, ServerUrl, Settings, ToolPolicy, UpstreamKind, UpstreamSpec};

use crate::harness::http::{Response, send, send_to};
use crate::harness::{
    Board, Era, Modern, Old, Server, accept, eventually, form, policies, serve, serve_with, settings, steps,
};

const METADATA: &str = "/.well-known/oauth-protected-resource";

fn list(words: &str) -> Vec<String> {
    words.split_whitespace().map(str::to_owned).collect()
}

/// Ann, who may everything, Bob, who may call, and Cleo, who may look.
fn tokens() -> Vec<StaticToken> {
    [("ann", "mcp tasks stop reports"), ("bob", "mcp reports"), ("cleo", "mcp tasks")]
        .map(|(name, scopes)| StaticToken {
            name: name.to_owned(),
            hash: TokenHash::of(&format!("{name}-secret")),
            scopes: list(scopes),
        })
        .into()
}

fn config(rights: Rights) -> AccessConfig {
    let resource = Resource::parse("https://gate.example/mcp").expect("an address");
    AccessConfig {
        resource,
        issuers: vec![Issuer::new("https://login.example")],
        tokens: tokens(),
        certificates: None,
        proxy: None,
        rights,
        reach: Default::default(),
    }
}

async fn guarded(board: &Board, rights: Rights) -> Server {
    serve_with(board, Settings { auth: Some(config(rights)), ..settings() }).await
}

/// What needs what, where anything does.
fn rights() -> Rights {
    let table = |entries: &[(&str, &str)]| {
        entries.iter().map(|(name, scopes)| ((*name).to_owned(), list(scopes))).collect()
    };
    Rights {
        required: list("mcp"),
        methods: table(&[
            ("tasks/*", "tasks"),
            ("tasks/cancel", "stop"),
            ("notifications/cancelled", "stop"),
        ]),
        tools: table(&[("always", "reports")]),
        includes: Default::default(),
    }
}

/// RFC 9728: everybody can read what this server is and whose tokens it takes, beside the endpoint and at the root.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_describes_itself_to_everybody() {
    let server = guarded(&Board::new(Era::Both), rights()).await;
    for path in [METADATA.to_owned(), format!("{METADATA}/mcp")] {
        let response = send_to(server.addr, "GET", &path, b"").await;
        assert_eq!((response.status, response.header("content-type")), (200, Some("application/json")));
        let described: Value = serde_json::from_str(&response.text().await).expect("JSON");
        assert_eq!(
            described,
            json!({
                "resource": "https://gate.example/mcp",
                "authorization_servers": ["https://login.example"],
                "bearer_methods_supported": ["header"],
                "resource_name": "taskgate",
                "scopes_supported": ["mcp"],
            })
        );
    }
    // Who needs no token has nothing to describe.
    let open = serve(&Board::new(Era::Both)).await;
    assert_eq!(send_to(open.addr, "GET", METADATA, b"").await.status, 404);
}

/// RFC 6750, section 3: who shows no good token is told where to get one, before a word of the request is read.
#[tokio::test(flavor = "multi_thread")]
async fn who_shows_no_good_token_is_told_what_to_do() {
    let server = guarded(&Board::new(Era::Both), rights()).await;
    let place =
        r#"resource_metadata="https://gate.example/.well-known/oauth-protected-resource/mcp", scope="mcp""#;
    let invalid = |why: &str| format!(r#"Bearer error="invalid_token", error_description="{why}", {place}"#);
    for (shown, status, challenge) in [
        (vec![], 401, format!("Bearer {place}")),
        (vec!["Basic YW5uOnNlY3JldA=="], 401, format!("Bearer {place}")),
        (
            vec!["Bearer sentinel-secret"],
            401,
            invalid(
                "the access token is not known here: get one from an authorization server of this server",
            ),
        ),
        (
            vec!["Bearer ann-secret", "Bearer bob-secret"],
            400,
            format!(
                r#"Bearer error="invalid_request", error_description="the header Authorization is there more than once: send one", {place}"#
            ),
        ),
    ] {
        for verb in ["POST", "GET", "DELETE"] {
            let headers: Vec<_> = shown.iter().map(|shown| ("Authorization", *shown)).collect();
            let response = send(server.addr, verb, &headers, b"this is not JSON").await;
            assert_eq!(
                (response.status, response.header("www-authenticate")),
                (status, Some(&*challenge)),
                "{verb}"
            );
            let answer = response.answer().await;
            assert_eq!((answer.code(), &answer.json["id"]), (-32600, &Value::Null));
            assert!(!answer.raw.contains("secret"), "{}", answer.raw);
        }
    }
    // A web page that may not be here learns nothing.
    let headers = [("Origin", "https://evil.example"), ("Authorization", "Bearer ann-secret")];
    for (verb, path) in [("POST", "/mcp"), ("GET", METADATA)] {
        let response = send(server.addr, verb, &headers[..1], b"{}").await;
        assert_eq!((response.status, response.header("www-authenticate")), (403, None), "{path}");
    }
    assert_eq!(send(server.addr, "POST", &headers, b"{}").await.status, 403);
    // A token in the URL is none (MCP, "Token Requirements").
    assert_eq!(send_to(server.addr, "POST", "/mcp?access_token=ann-secret", b"{}").await.status, 401);
}

/// Case 10: what is somebody else's is as if it were not there: in every verb, in all three dialects, byte for byte.
#[tokio::test(flavor = "multi_thread")]
async fn tasks_belong_to_whoever_showed_the_token() {
    let board = Board::new(Era::Both);
    let server = guarded(&board, Rights::default()).await;
    let first =
        |id: &str| json!({"taskId": id, "_meta": {"modelcontextprotocol.io/related-task": {"taskId": id}}});
    let ann = Old::of(&server, "ann-secret").await;
    let of_ann = ann.augmented("always", json!([{"wait": "go"}])).await.task();
    let call = json!({"name": "do", "arguments": steps(&json!([{"wait": "go"}])), "_meta": {"modelcontextprotocol.io/task": {"taskId": "mine"}}});
    let _running = ann.begin("tools/call", call).await;
    eventually("the task with a name", || async {
        (ann.ask("tasks/get", first("mine")).await.json.get("result").is_some()).then_some(())
    })
    .await;
    let call = json!({"name": "always", "arguments": steps(&json!([])), "task": {"ttl": 0}});
    let expired = ann.ask("tools/call", call).await.task();
    eventually("expiry", || async {
        (ann.ask("tasks/get", json!({"taskId": expired})).await.json.get("error").is_some()).then_some(())
    })
    .await;
    let unknown = format!("{}{}", &of_ann[..16], "0".repeat(32));
    let (bob, modern) = (Old::of(&server, "bob-secret").await, Modern::of(&server, "bob-secret"));
    assert!(bob.initialized["capabilities"]["tasks"]["list"].is_object(), "owners are told apart");
    let mut answers: Vec<(u16, Value)> = Vec::new();
    for id in [&of_ann, &expired, &unknown] {
        let id = json!({"taskId": id});
        for verb in ["tasks/get", "tasks/result", "tasks/cancel"] {
            let answer = bob.ask(verb, id.clone()).await;
            answers.push((answer.status, answer.error().clone()));
        }
        for verb in ["tasks/get", "tasks/cancel"] {
            let answer = modern.ask(verb, id.clone()).await;
            answers.push((answer.status, answer.error().clone()));
        }
        let mut update = id.clone();
        update["inputResponses"] = json!({"k": {}});
        let answer = modern.ask("tasks/update", update).await;
        answers.push((answer.status, answer.error().clone()));
    }
    answers.dedup();
    assert_eq!(answers, [(200, json!({"code": -32602, "message": "Unknown task"}))]);
    for verb in ["tasks/get", "tasks/result", "tasks/delete"] {
        let [foreign, none] = [bob.ask(verb, first("mine")).await, bob.ask(verb, first("none")).await];
        let [foreign, none] = [foreign, none].map(|answer| {
            let said = answer.json.get("error").or(answer.json.get("result")).expect("an answer").to_string();
            said.replace("mine", "ID").replace("none", "ID")
        });
        assert_eq!(foreign, none, "{verb}");
    }
    for (old, tasks) in [(&ann, 2), (&bob, 0)] {
        let listed =
            old.ask("tasks/list", json!({})).await.result()["tasks"].as_array().expect("tasks").len();
        assert_eq!(listed, tasks);
    }
    // The stream of a subscription says nothing of it either.
    let acknowledged = |response: Response| async move {
        let mut response = response;
        let text = response.event().await.expect("an acknowledgement");
        let mut said: Value = serde_json::from_str(&text).expect("JSON");
        said["params"].as_object_mut().expect("params").remove("_meta");
        said.to_string()
    };
    let foreign = acknowledged(modern.listen(&[&of_ann]).await).await;
    assert_eq!(foreign, acknowledged(modern.listen(&[&unknown]).await).await.replace(&unknown, &of_ann));
    // The same owner, whatever it speaks.
    assert_eq!(Modern::of(&server, "ann-secret").get(&of_ann).await["status"], "working");
    board.open("go");
}

/// A session belongs to whoever opened it: shown with another token it is as unknown as one that never was.
#[tokio::test(flavor = "multi_thread")]
async fn sessions_belong_to_whoever_opened_them() {
    let server = guarded(&Board::new(Era::Both), Rights::default()).await;
    for version in ["2025-03-26", "2025-11-25"] {
        let ann = Old::shown(&server, version, json!({}), Some("ann-secret")).await;
        let ask = json!({"jsonrpc": "2.0", "id": 7, "method": "ping"});
        let messages = [
            ask.clone(),
            json!([ask]),
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}),
            json!({"jsonrpc": "2.0", "id": 1, "result": {}}),
            json!({"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "x"}}),
        ];
        let mut foreign = ann.clone();
        foreign.authorization = Some("Bearer bob-secret".to_owned());
        let mut unknown = foreign.clone();
        unknown.session = "0".repeat(32);
        let mut answers = Vec::new();
        for who in [&foreign, &unknown] {
            let mut said = Vec::new();
            for message in &messages {
                let response = who.post(message).await;
                said.push((response.status, response.text().await));
            }
            let stream = who.stream().await;
            // One that is open has no end to be read to.
            assert_eq!(stream.status, 404);
            said.push((stream.status, stream.text().await));
            said.push((who.end().await, String::new()));
            answers.push(said);
        }
        assert_eq!(answers[0], answers[1]);
        assert!(answers[0].iter().all(|(status, _)| *status == 404), "{answers:?}");
        // It is still there for its owner.
        assert_eq!(*ann.ask("ping", json!({})).await.result(), json!({}));
        assert_eq!(ann.end().await, 204);
    }
}

/// Step-up: what a token does not allow is refused with all the scopes that are needed, for tools and for task verbs, and each
/// request's token decides, whatever the session was opened with.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_token_does_not_allow_is_refused_with_what_is_needed() {
    let board = Board::new(Era::Both);
    let server = guarded(&board, rights()).await;
    let (bob, cleo) = (Modern::of(&server, "bob-secret"), Modern::of(&server, "cleo-secret"));
    let challenge = |scopes: &str| {
        format!(
            r#"Bearer error="insufficient_scope", error_description="the access token does not allow this: ask for one with the scopes {scopes}", resource_metadata="https://gate.example/.well-known/oauth-protected-resource/mcp", scope="{scopes}""#
        )
    };
    let refused = |response: Response, scopes: String| async move {
        assert_eq!((response.status, response.header("www-authenticate")), (403, Some(&*scopes)));
        let answer = response.answer().await;
        assert_eq!(answer.code(), -32600);
        answer
    };
    let always = json!({"name": "always", "arguments": steps(&json!([{"count": "body"}]))});
    let answer = refused(cleo.open("tools/call", always.clone()).await, challenge("mcp reports")).await;
    assert_eq!(answer.json["id"], json!(1), "an answer to the request");
    assert_eq!(board.count("body"), 0, "nothing has run");
    let id = bob.task("always", json!([])).await;
    for verb in ["tasks/get", "tasks/update"] {
        refused(bob.open(verb, json!({"taskId": id, "inputResponses": {}})).await, challenge("mcp tasks"))
            .await;
    }
    refused(cleo.open("tasks/cancel", json!({"taskId": id})).await, challenge("mcp stop tasks")).await;
    assert_eq!(
        cleo.ask("tasks/get", json!({"taskId": id})).await.code(),
        -32602,
        "allowed, and somebody else's"
    );
    // In a session, in a batch, in a notification, and by the tools that stand in for task verbs.
    let session = Old::shown(&server, "2025-03-26", json!({}), Some("bob-secret")).await;
    refused(session.begin("tasks/cancel", json!({"taskId": id})).await, challenge("mcp stop tasks")).await;
    let cancelled =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}});
    refused(session.post(&cancelled).await, challenge("mcp stop")).await;
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    refused(session.post(&json!([ping, cancelled])).await, challenge("mcp stop")).await;
    assert_eq!(session.post(&json!([ping])).await.status, 200);
    for (tool, scopes) in [("task_status", "mcp tasks"), ("taskgate_task_cancel", "mcp stop tasks")] {
        refused(
            session.begin("tools/call", json!({"name": tool, "arguments": {"task": id}})).await,
            challenge(scopes),
        )
        .await;
    }
    // Rights that were lost since.
    let ann = Old::of(&server, "ann-secret").await;
    assert_eq!(ann.ask("tasks/list", json!({})).await.result()["tasks"], json!([]));
    let nobody = guarded(&board, Rights { required: list("other"), ..Rights::default() }).await;
    for verb in ["GET", "DELETE", "POST"] {
        let ask = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
        let response =
            send(nobody.addr, verb, &[("Authorization", "Bearer ann-secret")], ask.as_bytes()).await;
        refused(response, challenge("other")).await;
    }
}

/// A call that waits for answers goes on for whoever began it, and only if its token still allows the call.
#[tokio::test(flavor = "multi_thread")]
async fn a_parked_call_goes_on_for_its_owner_alone() {
    let server = guarded(&Board::new(Era::Session), rights()).await;
    let call = json!({"name": "never", "arguments": steps(&json!([{"ask": [form("name?")]}]))});
    let ann = Modern::of(&server, "ann-secret");
    let asked = ann.ask("tools/call", call.clone()).await.result().clone();
    let mut retry = call;
    retry["requestState"] = asked["requestState"].clone();
    let key = asked["inputRequests"].as_object().expect("questions").keys().next().expect("one").clone();
    retry["inputResponses"] = json!({key: accept("x")});
    let mut unknown = retry.clone();
    unknown["requestState"] = json!("none");
    let bob = Modern::of(&server, "bob-secret");
    let [foreign, none] = [bob.ask("tools/call", retry.clone()).await, bob.ask("tools/call", unknown).await];
    assert_eq!((foreign.code(), foreign.error()), (-32602, none.error()));
    let mut other = retry.clone();
    other["name"] = json!("always");
    assert_eq!(Modern::of(&server, "cleo-secret").open("tools/call", other).await.status, 403);
    assert_eq!(ann.ask("tools/call", retry).await.result()["resultType"], "complete");
}

/// A header that says who is calling counts from the proxy's address, and from no other.
#[tokio::test(flavor = "multi_thread")]
async fn only_the_proxy_says_who_is_calling() {
    let said = [("X-User", "dora"), ("MCP-Protocol-Version", "2025-11-25")];
    let ask = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
    // Without a session a good caller is told that it needs one; one that is not let in gets no further than that.
    for (address, status) in [("127.0.0.1", 400), ("10.0.0.1", 401)] {
        let proxy = Proxy {
            header: "x-user".to_owned(),
            addresses: vec![address.parse().expect("an address")],
            scopes: Vec::new(),
        };
        let auth = AccessConfig { proxy: Some(proxy), ..config(Rights::default()) };
        let server = serve_with(&Board::new(Era::Both), Settings { auth: Some(auth), ..settings() }).await;
        assert_eq!(send(server.addr, "POST", &said, ask.as_bytes()).await.status, status, "{address}");
        assert_eq!(
            send(server.addr, "POST", &said[1..], ask.as_bytes()).await.status,
            401,
            "nobody is named"
        );
        let twice = [("X-User", "dora"), ("X-User", "ann")];
        assert_eq!(send(server.addr, "POST", &twice, ask.as_bytes()).await.status, 401);
    }
}

/// Case 36: the caller's token goes nowhere ("MUST NOT accept or transit any other tokens").
#[tokio::test(flavor = "multi_thread")]
async fn the_callers_token_is_not_passed_on() {
    let board = Board::new(Era::Both);
    let far = Gateway::builder().add(board.spec("board")).policy(ToolPolicy::never()).settings(settings());
    let far = far.build().await.expect("gateway");
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let sees = seen.clone();
    let router = far.router().layer(from_fn(move |request: Request, next: Next| {
        sees.lock().push(format!("{:?}", request.headers()));
        next.run(request)
    }));
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let url = format!("http://{}/mcp", listener.local_addr().expect("bound"));
    tokio::spawn(async move { axum::serve(listener, router).await });
    let spec =
        UpstreamSpec::new("far", UpstreamKind::Http(HttpServer::new(ServerUrl::parse(&url).expect("a URL"))));
    let near = policies(Gateway::builder().add(spec))
        .settings(Settings { auth: Some(config(Rights::default())), ..settings() });
    let near = Server::start(near.build().await.expect("gateway")).await;
    let ann = Modern::of(&near, "ann-secret");
    assert_eq!(ann.tool("never", json!([])).await.text(), "done");
    assert_eq!(Old::of(&near, "ann-secret").await.tool("never", json!([])).await.text(), "done");
    let seen = seen.lock().join("\n");
    assert!(seen.contains("mcp-protocol-version"), "the calls went there: {seen}");
    assert!(!seen.contains("ann-secret") && !seen.to_lowercase().contains("authorization"), "{seen}");
}

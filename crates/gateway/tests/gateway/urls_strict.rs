//! A server of 2026-07-28 at a URL that looks at every header.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use parking_lot::Mutex;
use serde_json::{Value, json};
use taskgate_client::transport::http::Auth;
use taskgate_credentials::Secret;
use taskgate_gateway::{Config, Gateway, HttpServer, ServerUrl};
use tokio::sync::Notify;

use crate::harness::{Modern, Server, http, logs, settings};

#[derive(Clone, Default)]
struct Strict(Arc<Mutex<Seen>>, Arc<Notify>);

#[derive(Default)]
struct Seen {
    headers: Vec<String>,
    tools: Vec<Value>,
    calls: usize,
    /// How many tokens were given out; only the last one is good. None is needed before the first.
    tokens: usize,
}

impl Strict {
    async fn start(tools: Value) -> (Strict, HttpServer) {
        let strict = Strict::default();
        strict.offer(tools);
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let url = format!("http://{}/mcp", listener.local_addr().expect("bound"));
        let router = Router::new().route("/mcp", post(answer)).route("/token", post(token));
        let router = router.with_state(strict.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        (strict, HttpServer::new(ServerUrl::parse(&url).expect("a URL")))
    }

    fn offer(&self, tools: Value) {
        self.0.lock().tools = tools.as_array().expect("tools").clone();
    }
}

/// Gives out a token, and takes the one before it back.
async fn token(State(strict): State<Strict>, form: String) -> Response {
    assert_eq!(form.split('&').next(), Some("grant_type=client_credentials"));
    let mut seen = strict.0.lock();
    seen.tokens += 1;
    let granted = json!({"access_token": format!("t{}", seen.tokens), "token_type": "Bearer"}).to_string();
    ([(header::CONTENT_TYPE, "application/json")], granted).into_response()
}

async fn answer(State(strict): State<Strict>, headers: HeaderMap, body: String) -> Response {
    let request: Value = serde_json::from_str(&body).expect("JSON");
    let tokens = strict.0.lock().tokens;
    let good = format!("Bearer t{tokens}");
    if tokens > 0 && headers.get(header::AUTHORIZATION).is_none_or(|said| *said != good) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    if request["params"]["name"] == "held" {
        strict.1.notified().await;
    }
    let mut seen = strict.0.lock();
    seen.headers.extend(headers.iter().map(|(name, value)| format!("{name}: {value:?}")));
    seen.headers.push(body);
    let result = match request["method"].as_str().unwrap_or_default() {
        "server/discover" => json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}),
        "tools/list" => json!({"tools": seen.tools}),
        "tools/call" => {
            let wanted = &seen.tools[0]["inputSchema"]["properties"]["region"]["x-mcp-header"];
            let said = headers.get("mcp-param-region").map(|value| value.to_str().expect("text"));
            if !wanted.is_null() && said != request["params"]["arguments"]["region"].as_str() {
                let error =
                    json!({"code": -32020, "message": "Header mismatch: Mcp-Param-Region is missing"});
                let body = json!({"jsonrpc": "2.0", "id": request["id"], "error": error}).to_string();
                return (StatusCode::BAD_REQUEST, [(header::CONTENT_TYPE, "application/json")], body)
                    .into_response();
            }
            seen.calls += 1;
            json!({"content": [{"type": "text", "text": "called"}], "resultType": "complete"})
        }
        other => panic!("nobody asks {other}"),
    };
    let body = json!({"jsonrpc": "2.0", "id": request["id"], "result": result}).to_string();
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

fn tool(name: &str, region: Value) -> Value {
    json!({"name": name, "inputSchema": {"type": "object", "properties": {"region": region}}})
}

async fn behind(server: HttpServer) -> (Server, Modern) {
    let builder = Gateway::builder().upstream_url("strict", server).settings(settings());
    let near = Server::start(builder.build().await.expect("gateway")).await;
    let client = Modern::new(&near);
    (near, client)
}

/// The list is asked for again when it turns out to be old, and the call is made with the headers it wants, once.
#[tokio::test]
async fn headers_that_have_become_wanted_are_sent() {
    let (strict, server) = Strict::start(json!([tool("t", json!({"type": "string"}))])).await;
    let (_near, client) = behind(server).await;
    let params = json!({"name": "t", "arguments": {"region": "north"}});
    assert_eq!(client.ask("tools/call", params.clone()).await.text(), "called");
    strict.offer(json!([tool("t", json!({"type": "string", "x-mcp-header": "Region"}))]));
    assert_eq!(client.ask("tools/call", params).await.text(), "called");
    assert_eq!(strict.0.lock().calls, 2);
    logs::clean();
}

/// "Rejection means the client MUST exclude the invalid tool from the result of tools/list."
#[tokio::test]
async fn a_tool_that_asks_for_a_header_wrongly_is_not_offered() {
    let valid = tool("valid", json!({"type": "string", "x-mcp-header": "Region"}));
    let wrong = tool("wrong", json!({"type": "number", "x-mcp-header": "Region"}));
    let (_strict, server) = Strict::start(json!([wrong, valid])).await;
    let (_near, client) = behind(server).await;
    let listed = client.ask("tools/list", json!({})).await;
    let names: Vec<&Value> =
        listed.result()["tools"].as_array().expect("tools").iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["valid"]);
}

/// Case 36: what a caller shows us is ours, and what we show the server is the server's.
#[tokio::test]
async fn no_token_crosses_the_gateway() {
    let (strict, server) = Strict::start(json!([tool("t", json!({"type": "string"}))])).await;
    let server = HttpServer { auth: Auth::Bearer(Secret::Text("outbound".to_owned())), ..server };
    let (near, client) = behind(server).await;
    let (mut headers, body) = client.request("tools/call", json!({"name": "t", "arguments": {}}));
    for name in ["Authorization", "Cookie", "X-Api-Key", "Proxy-Authorization"] {
        headers.push((name.to_owned(), "Bearer inbound".to_owned()));
    }
    let headers: Vec<(&str, &str)> = headers.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
    let answer = http::send(near.addr, "POST", &headers, body.to_string().as_bytes()).await.answer().await;
    assert_eq!(answer.text(), "called");
    assert!(!answer.raw.contains("outbound"));
    let seen = strict.0.lock().headers.join("\n");
    assert!(!seen.contains("inbound"), "{seen}");
    let shown = seen.matches("authorization: \"Bearer outbound\"").count();
    assert_eq!(shown, seen.matches("\"jsonrpc\"").count(), "every request shows it");
}

/// A call may last longer than its token. What comes after it gets another one, and is made once.
#[tokio::test]
async fn a_token_that_is_taken_back_is_replaced_while_work_goes_on() {
    let (strict, server) = Strict::start(json!([tool("held", json!({})), tool("quick", json!({}))])).await;
    let url = server.url.as_url().clone();
    let text = format!(
        "[[upstream]]\nname = \"strict\"\nurl = \"{url}\"\n[upstream.oauth]\ntoken_url = \"{}\"\n\
         client_id = \"me\"\nclient_secret = \"sesame\"\n",
        url.join("/token").expect("a URL"),
    );
    let config = Config::parse(&text, "test").unwrap_or_else(|errors| panic!("{errors}"));
    let spec = config.upstreams[0].spec(|| unreachable!("no demo"));
    let near =
        Server::start(Gateway::builder().add(spec).settings(settings()).build().await.expect("gateway"))
            .await;
    let client = Modern::without_tasks(&near);
    let call = |name: &str| client.ask("tools/call", json!({"name": name, "arguments": {}}));
    let held = async {
        let answer = call("held").await;
        answer.text().to_owned()
    };
    let others = async {
        assert_eq!(call("quick").await.text(), "called");
        strict.0.lock().tokens += 1;
        assert_eq!(call("quick").await.text(), "called");
        strict.1.notify_one();
    };
    let (held, ()) = tokio::join!(held, others);
    assert_eq!(held, "called");
    let seen = strict.0.lock();
    assert_eq!((seen.calls, seen.tokens), (3, 3), "one token was fetched, one taken back, one fetched");
    assert!(!seen.headers.iter().any(|line| line.contains("sesame")));
}

use super::*;

#[tokio::test]
async fn every_request_says_what_it_is() {
    let script = Script::start().await;
    let session = script.modern(&script.server()).await;
    let listing = session.call(MODERN, "tools/list", None, CallOptions::default());
    let asked = script.expect("tools/list").await;
    assert!(!asked.headers.contains_key("mcp-name"));
    asked
        .answer(&json!({"tools": [{"name": "t", "inputSchema": {"type": "object", "properties":
            {"region": {"type": "string", "x-mcp-header": "Region"}}}}]}))
        .await;
    outcome(listing).await.expect("listed");
    let params = json(&json!({"name": "t", "arguments": {"region": "Zürich"}}));
    let calling = session.call(MODERN, "tools/call", Some(params.as_raw()), CallOptions::default());
    let asked = script.expect("tools/call").await;
    assert_eq!(asked.headers["mcp-protocol-version"], "2026-07-28");
    assert_eq!(asked.headers["mcp-method"], "tools/call");
    assert_eq!(asked.headers["mcp-name"], "t");
    assert_eq!(asked.headers["mcp-param-region"], "=?base64?WsO8cmljaA==?=");
    assert!(!asked.headers.contains_key("mcp-session-id"));
    asked.fail("404 Not Found", &json!({"code": -32601, "message": "Method not found"})).await;
    let Err(CallFailure::Rpc(error)) = outcome(calling).await else { panic!("no error of the server") };
    assert!(error.as_str().contains("-32601"), "the body says what it is, not the status");
    drop(session);
    assert!(script.is_silent().await, "there is no session to end");
}

#[tokio::test]
async fn a_cancelled_call_is_let_go_of_without_a_word() {
    let script = Script::start().await;
    let session = script.modern(&script.server()).await;
    let calling = call(&session, MODERN, "t");
    let mut asked = script.expect("tools/call").await;
    asked.stream().await;
    calling.cancel("no longer needed");
    asked.gone().await;
    assert!(script.is_silent().await, "2026-07-28 has no message for it");
}

/// There is no resuming in 2026-07-28, whatever a server writes into its stream.
#[tokio::test]
async fn a_stream_that_breaks_interrupts_its_call_alone() {
    let script = Script::start().await;
    let session = script.modern(&script.server()).await;
    let (a, b) = (call(&session, MODERN, "a"), call(&session, MODERN, "b"));
    let (one, two) = (script.expect("tools/call").await, script.expect("tools/call").await);
    let (mut to_a, to_b) = if one.body["params"]["name"] == "a" { (one, two) } else { (two, one) };
    to_a.stream().await;
    to_a.send("id: e1\nretry: 1\ndata: \n\n").await;
    drop(to_a);
    let failure = failure(a).await;
    assert_eq!(failure.kind, FailureKind::Interrupted);
    assert!(failure.to_string().contains("may have done the work or not"));
    to_b.answer(&json!({"ok": true})).await;
    assert_eq!(outcome(b).await, Ok(json!({"ok": true})));
    assert!(script.is_silent().await);
}

#[tokio::test]
async fn a_subscription_brings_what_belongs_to_it() {
    let script = Script::start().await;
    let session = script.modern(&script.server()).await;
    let filter = json(&json!({"notifications": {"toolsListChanged": true}}));
    let mut listening =
        session.call(MODERN, "subscriptions/listen", Some(filter.as_raw()), CallOptions::default());
    let mut asked = script.expect("subscriptions/listen").await;
    asked.stream().await;
    asked.send(": still here\r\n\r\n").await;
    // With and without the subscription's id: the stream says whose it is.
    asked.event(&json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": {"_meta": {"io.modelcontextprotocol/subscriptionId": asked.id()}}})).await;
    asked.event(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": {}})).await;
    for want in ["notifications/subscriptions/acknowledged", "notifications/tools/list_changed"] {
        let CallEvent::Notification { method, .. } = soon(listening.next()).await else {
            panic!("no {want}")
        };
        assert_eq!(method, want);
    }
    drop(asked);
    assert_eq!(failure(listening).await.kind, FailureKind::Interrupted);
}

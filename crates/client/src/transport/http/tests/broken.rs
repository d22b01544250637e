//! Servers that are not there, are in trouble, or are none.

use taskgate_credentials::Secret;

use super::*;

async fn after(respond: impl AsyncFnOnce(Exchange)) -> (RequestFailure, Session) {
    let script = Script::start().await;
    let session = script.legacy(&script.server()).await;
    let calling = call(&session, LEGACY, "t");
    respond(script.expect("tools/call").await).await;
    let failure = failure(calling).await;
    assert!(script.is_silent().await, "a tool is not called again");
    (failure, session)
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told_with_its_address() {
    let script = Script::start().await;
    let server = script.server();
    let session = script.legacy(&server).await;
    drop(script);
    let failure = failure(call(&session, LEGACY, "t")).await;
    assert_eq!(failure.kind, FailureKind::Unreachable);
    assert!(failure.to_string().contains("Connection refused"), "{failure}");
    assert!(soon(session.stale()).await.to_string().contains("cannot connect"));
    let link = connect(&server).expect("connect");
    match Session::open(link, OpenOptions::new("test", "1")).await {
        Err(OpenError::Request(failure)) => assert_eq!(failure.kind, FailureKind::Unreachable),
        other => panic!("{other:?}"),
    }
}

/// A status of the server's own trouble leaves open what was done; one of the client's says that nothing was.
#[tokio::test]
async fn a_status_means_what_it_says() {
    for (status, kind, says) in [
        ("500 Internal Server Error", FailureKind::Interrupted, "may have done the work"),
        ("502 Bad Gateway", FailureKind::Interrupted, "may have done the work"),
        ("503 Service Unavailable", FailureKind::Interrupted, "may have done the work"),
        ("401 Unauthorized", FailureKind::Refused, "`bearer`"),
        ("403 Forbidden", FailureKind::Refused, "credentials"),
        ("405 Method Not Allowed", FailureKind::Refused, "`url`"),
        ("413 Content Too Large", FailureKind::Refused, "too large"),
        ("202 Accepted", FailureKind::Malformed, "did not answer"),
    ] {
        let (failure, _) = after(async |asked| asked.status(status).await).await;
        assert_eq!(failure.kind, kind, "{status}");
        assert!(failure.to_string().contains(says), "{failure}");
    }
}

#[tokio::test]
async fn an_error_in_the_body_is_the_answer_whatever_the_status() {
    let script = Script::start().await;
    let session = script.legacy(&script.server()).await;
    for status in ["400 Bad Request", "500 Internal Server Error"] {
        let calling = call(&session, LEGACY, "t");
        script.expect("tools/call").await.fail(status, &json!({"code": -32602, "message": "no"})).await;
        assert!(matches!(outcome(calling).await, Err(CallFailure::Rpc(_))), "{status}");
    }
}

#[tokio::test]
async fn too_many_requests_are_put_off_as_long_as_the_server_says() {
    let script = Script::start().await;
    let session = script.legacy(&script.server()).await;
    let calling = call(&session, LEGACY, "t");
    script.expect("tools/call").await.respond("429 Too Many Requests", "Retry-After: 0\r\n", "").await;
    script.expect("tools/call").await.answer(&json!({"ok": true})).await;
    assert_eq!(outcome(calling).await, Ok(json!({"ok": true})));
    for (headers, says) in [("Retry-After: 3600\r\n", "try again in 3600 s"), ("", "no more requests")] {
        let (failure, _) =
            after(async |asked| asked.respond("429 Too Many Requests", headers, "").await).await;
        assert_eq!(failure.kind, FailureKind::Refused);
        assert!(failure.to_string().contains(says), "{failure}");
    }
}

#[tokio::test]
async fn a_redirect_is_followed_within_the_server_only() {
    let script = Script::start().await;
    let session = script.legacy(&script.server()).await;
    let calling = call(&session, LEGACY, "t");
    script.expect("tools/call").await.respond("307 Temporary Redirect", "Location: /mcp/\r\n", "").await;
    let moved = script.expect("tools/call").await;
    assert_eq!((moved.path.as_str(), moved.headers["mcp-session-id"].as_str()), ("/mcp/", "s1"));
    moved.answer(&json!({})).await;
    outcome(calling).await.expect("answered");
    let elsewhere = "Location: https://evil.example/mcp?key=sesame\r\n";
    for (status, location, says) in [
        ("307 Temporary Redirect", elsewhere, "https://evil.example"),
        ("302 Found", "Location: /login\r\n", "another request"),
        ("307 Temporary Redirect", "", "307"),
    ] {
        let (failure, _) = after(async |asked| asked.respond(status, location, "").await).await;
        assert_eq!(failure.kind, FailureKind::Refused);
        assert!(failure.to_string().contains(says), "{failure}");
    }
}

/// What shows who is calling goes to nobody whom the server names, and not round in circles either.
#[tokio::test]
async fn a_redirect_takes_no_credentials_anywhere() {
    let elsewhere = Script::start().await;
    let there = elsewhere.url();
    let with = |script: &Script| {
        let key = (HeaderName::from_static("x-key"), Secret::Text("k1".to_owned()));
        HttpServer {
            headers: vec![key],
            auth: Auth::Bearer(Secret::Text("b1".to_owned())),
            ..script.server()
        }
    };
    for location in [
        there.as_str(),
        "http://169.254.169.254/",
        "//10.0.0.1/mcp",
        "http://localhost/mcp",
        "file:///etc/passwd",
    ] {
        let script = Script::start().await;
        let session = script.legacy(&with(&script)).await;
        let calling = call(&session, LEGACY, "t");
        let asked = script.expect("tools/call").await;
        assert_eq!(asked.headers["authorization"], "Bearer b1");
        asked.respond("307 Temporary Redirect", &format!("Location: {location}\r\n"), "").await;
        let failure = failure(calling).await;
        assert_eq!(failure.kind, FailureKind::Refused, "{location}: {failure}");
        assert!(script.is_silent().await);
    }
    assert!(elsewhere.is_silent().await);
    let script = Script::start().await;
    let session = script.legacy(&with(&script)).await;
    let calling = call(&session, LEGACY, "t");
    for turn in 0..6 {
        let asked = script.expect("tools/call").await;
        asked.respond("308 Permanent Redirect", &format!("Location: /mcp/{turn}\r\n"), "").await;
    }
    assert!(failure(calling).await.to_string().contains("in a circle"));
    assert!(script.is_silent().await);
}

#[tokio::test]
async fn an_answer_that_is_none_is_told() {
    let json = "Content-Type: application/json\r\n";
    for (headers, body, says) in [
        ("Content-Type: text/html\r\n", "<html>", "text/html"),
        ("", "{}", "\"\""),
        (json, "[]", "no JSON-RPC response"),
        (
            "Content-Type: application/json\r\nContent-Encoding: gzip\r\n",
            "\u{1f}",
            "\"gzip\", which was not asked for",
        ),
        (json, "{\"jsonrpc\":", "no JSON-RPC response"),
        (json, r#"{"jsonrpc":"2.0","method":"notifications/x"}"#, "no JSON-RPC response"),
    ] {
        let (failure, _) = after(async |asked| asked.respond("200 OK", headers, body).await).await;
        assert_eq!(failure.kind, FailureKind::Malformed, "{body}");
        assert!(failure.to_string().contains(says), "{failure}");
    }
}

/// Media types are written as anybody likes (RFC 9110, section 8.3.1).
#[tokio::test]
async fn a_media_type_has_no_case() {
    let script = Script::start().await;
    let session = script.legacy(&script.server()).await;
    for (kind, before, after) in
        [("Application/JSON; Charset=UTF-8", "", ""), ("TEXT/Event-Stream", "data: ", "\n\n")]
    {
        let calling = call(&session, LEGACY, "t");
        let asked = script.expect("tools/call").await;
        let answer = json!({"jsonrpc": "2.0", "id": asked.id(), "result": {"n": 1}});
        let headers = format!("Content-Type: {kind}\r\nContent-Encoding: identity\r\n");
        asked.respond("200 OK", &headers, &format!("{before}{answer}{after}")).await;
        assert_eq!(outcome(calling).await.expect("a result"), json!({"n": 1}), "{kind}");
    }
}

#[tokio::test]
async fn what_is_too_long_is_not_read_to_its_end() {
    let script = Script::start().await;
    let server = HttpServer { message_limit: 1000, ..script.server() };
    let session = script.legacy(&server).await;
    let calling = call(&session, LEGACY, "t");
    let mut asked = script.expect("tools/call").await;
    asked.send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n").await;
    asked.send(&"x".repeat(2000)).await;
    let failed = failure(calling).await;
    assert!(failed.kind == FailureKind::Malformed && failed.to_string().contains("1000 bytes"), "{failed}");
    let calling = call(&session, LEGACY, "t");
    let mut asked = script.expect("tools/call").await;
    asked.stream().await;
    asked.send("data: ").await;
    asked.send(&"x".repeat(2000)).await;
    asked.send("\n\n").await;
    let failed = failure(calling).await;
    assert!(failed.kind == FailureKind::Malformed && failed.to_string().contains("1000 bytes"), "{failed}");
}

/// A body that is cut off is no answer, even if what arrived of it were one.
#[tokio::test]
async fn a_body_that_is_cut_off_interrupts_the_call() {
    let (failure, _) = after(async |mut asked| {
        asked
            .send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{}")
            .await;
    })
    .await;
    assert_eq!(failure.kind, FailureKind::Interrupted);
    let (failure, _) = after(async |asked| drop(asked)).await;
    assert_eq!(failure.kind, FailureKind::Interrupted);
}

/// What only asks is asked again, once, if the connection is lost before the answer begins; a tool is not called again.
#[tokio::test]
async fn what_is_no_work_is_sent_again() {
    let script = Script::start().await;
    let session = script.legacy(&script.server()).await;
    let listing = session.call(LEGACY, "tools/list", None, CallOptions::default());
    drop(script.expect("tools/list").await);
    script.expect("tools/list").await.answer(&json!({"tools": []})).await;
    outcome(listing).await.expect("listed");
    let listing = session.call(LEGACY, "tools/list", None, CallOptions::default());
    drop(script.expect("tools/list").await);
    drop(script.expect("tools/list").await);
    assert_eq!(failure(listing).await.kind, FailureKind::Interrupted);
    let unknown = session.call(LEGACY, "x/y", None, CallOptions::default());
    drop(script.expect("x/y").await);
    assert_eq!(failure(unknown).await.kind, FailureKind::Interrupted);
    assert!(script.is_silent().await);
}

/// A server may close a connection that was kept at the very moment in which it is used again.
#[tokio::test]
async fn a_tool_is_called_on_a_connection_of_its_own() {
    let script = Script::start().await;
    let session = script.legacy(&script.server()).await;
    let listing = session.call(LEGACY, "tools/list", None, CallOptions::default());
    let mut kept = script.expect("tools/list").await;
    let body = json!({"jsonrpc": "2.0", "id": kept.id(), "result": {"tools": []}}).to_string();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    kept.send(&format!("{head}{body}")).await;
    outcome(listing).await.expect("listed");
    // That connection is still open and could be used.
    let calling = call(&session, LEGACY, "t");
    script.expect("tools/call").await.answer(&json!({})).await;
    outcome(calling).await.expect("called");
    drop(kept);
}

/// A server that accepts connections and then says nothing must not keep the session from being ended.
#[tokio::test]
async fn a_server_that_has_gone_silent_holds_nobody_up() {
    let script = Script::start().await;
    let session = script.legacy(&script.server()).await;
    let calling = call(&session, LEGACY, "t");
    let asked = script.expect("tools/call").await;
    session.close().await;
    assert!(matches!(outcome(calling).await, Err(CallFailure::Closed(_))));
    asked.gone().await;
    assert_eq!(script.next().await.method, "DELETE");
}

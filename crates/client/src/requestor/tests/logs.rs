use super::*;
use crate::LogLevel;

const LEVEL: &str = "io.modelcontextprotocol/logLevel";

fn message(data: &str) -> Value {
    json!({ "level": "warning", "data": data })
}

/// A session whose server logs, or does not.
async fn in_session(script: &mut Script, logs: bool) -> Server {
    let mut server = script.next().await;
    server.logs = logs;
    server.initialize(OLD).await;
    server
}

async fn set(server: &mut Server) {
    let request = server.expect("logging/setLevel").await;
    assert_eq!(request.params["level"], "warning");
    server.answer(&request, json!({})).await;
}

/// A session has one level, which is set before anything is asked, and again when it is another session. What is said before
/// anybody listens is not lost.
#[tokio::test(start_paused = true)]
async fn the_level_of_a_session_is_set_after_each_opening() {
    let mut script = Script::new();
    let builder = script.builder().prefer(crate::Version::V2025_11_25).log_level(LogLevel::Warning);
    let (client, server) = tokio::join!(builder.connect(), async {
        let mut server = in_session(&mut script, true).await;
        set(&mut server).await;
        server.notify("notifications/message", message("early")).await;
        server
    });
    let client = client.expect("connect");
    let mut logs = client.logs().await.expect("a session");
    assert_eq!(value(&logs.next().await.expect("a message")), message("early"));
    server.notify("notifications/message", message("one")).await;
    assert_eq!(value(&logs.next().await.expect("a message")), message("one"));
    server.outdate().await;
    let (heard, _server) = tokio::join!(logs.next(), async {
        let mut server = in_session(&mut script, true).await;
        set(&mut server).await;
        server.notify("notifications/message", message("two")).await;
        server
    });
    assert_eq!(value(&heard.expect("a message")), message("two"));
}

/// In 2026-07-28 each request says the level, and a subscription does not: there are no messages on it.
#[tokio::test(start_paused = true)]
async fn each_request_says_the_level() {
    let mut script = Script::new();
    let (client, mut server) = script.open(script.builder().log_level(LogLevel::Warning), NEW).await;
    let mut call = client.call("t", json!({}));
    let request = server.expect("tools/call").await;
    assert_eq!(request.params["_meta"][LEVEL], "warning");
    server.notify("notifications/message", message("now")).await;
    server.accept(&request, NEW, 1000).await;
    let mut events = Vec::new();
    let listening = async {
        while let Some(event) = call.next().await {
            events.push(event);
        }
    };
    let serving = async {
        loop {
            match server.message().await.expect("the client is there") {
                Message::Request { method, params, .. } if method == "subscriptions/listen" => {
                    let params = value(&params.expect("params"));
                    assert!(params["_meta"].get(LEVEL).is_none(), "{params}");
                }
                Message::Request { id, method, params } if method == "tasks/get" => {
                    assert_eq!(value(&params.expect("params"))["_meta"][LEVEL], "warning");
                    let state = json!({ "resultType": "complete", "taskId": "T", "status": "completed",
                        "createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z",
                        "ttlMs": null, "result": result("done") });
                    return server.say(Message::Response { id, result: payload(&state) }).await;
                }
                _ => {}
            }
        }
    };
    tokio::join!(listening, serving);
    assert!(events.iter().any(|event| matches!(event, Event::Log(raw) if value(raw) == message("now"))));
}

/// Nobody asks a server that does not log to do so, and nobody who said no level is given one.
#[tokio::test(start_paused = true)]
async fn nothing_is_set_where_there_is_nothing_to_set() {
    for (level, logs) in [(Some(LogLevel::Debug), false), (None, true)] {
        let mut script = Script::new();
        let builder = script.builder().prefer(crate::Version::V2025_11_25);
        let builder = match level {
            Some(level) => builder.log_level(level),
            None => builder,
        };
        let (client, mut server) = tokio::join!(builder.connect(), in_session(&mut script, logs));
        let client = client.expect("connect");
        let heard = client.logs().await;
        assert_eq!(heard.is_ok(), logs);
        if let Err(error) = heard {
            assert!(matches!(&error, CallError::Unsupported(why) if why.contains("logging")), "{error}");
        }
        let (tools, ()) = tokio::join!(client.tools(), server.tools("optional"));
        assert_eq!(tools.expect("the first that is asked").len(), 1);
    }
}

/// A server without sessions cannot log apart from requests, and whoever wants to listen is told so.
#[tokio::test(start_paused = true)]
async fn without_a_session_there_is_nothing_apart_from_requests() {
    let mut script = Script::new();
    let (client, _server) = script.open(script.builder().log_level(LogLevel::Debug), NEW).await;
    let (heard, ()) = tokio::join!(client.logs(), async {
        let mut server = script.next().await;
        let request = server.expect("initialize").await;
        server.fail(&request, -32601, "Method not found").await;
    });
    let error = heard.expect_err("it has no session");
    assert!(matches!(&error, CallError::Unsupported(why) if why.contains("during requests")), "{error}");
}

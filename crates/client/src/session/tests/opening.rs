use std::time::Duration;

use super::*;
use crate::transport::{CloseCause, CloseReason};

const INITIALIZED: &str = r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"old","version":"1"}}"#;
const DISCOVERED: &str = r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"x":1.0}},"instructions":"hi","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"new","version":"2"}}}"#;
const BOTH: &str = r#"{"supportedVersions":["2025-11-25","2026-07-28","2031-01-01"],"capabilities":{}}"#;

fn start(options: OpenOptions) -> (tokio::task::JoinHandle<Result<Session, OpenError>>, Server) {
    let (link, far) = pair(8);
    (tokio::spawn(Session::open(link, options)), Server(far))
}

fn options() -> OpenOptions {
    OpenOptions::new("gate", "9")
}

/// Answers `initialize` and reads `notifications/initialized`.
async fn initialize(server: &mut Server) -> Value {
    let (id, method, params) = server.request().await;
    assert_eq!(method, "initialize");
    server.answer(&id, INITIALIZED).await;
    let initialized = Message::Notification { method: "notifications/initialized".to_owned(), params: None };
    assert_eq!(server.next().await, initialized);
    params
}

#[tokio::test]
async fn a_server_that_answers_the_probe_is_modern() {
    let (opening, mut server) = start(options());
    let (id, method, params) = server.request().await;
    assert_eq!(method, "server/discover");
    assert_eq!(params["_meta"]["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
    assert_eq!(params["_meta"]["io.modelcontextprotocol/clientInfo"]["name"], "gate");
    server.answer(&id, DISCOVERED).await;
    let session = opening.await.expect("task").expect("open");
    assert_eq!(session.lanes(), Lanes { modern: Some(MODERN), legacy: None });
    assert_eq!(session.server().capabilities().map(Payload::as_str), Some(r#"{"tools":{"x":1.0}}"#));
    assert_eq!(session.server().server_info().map(Payload::as_str), Some(r#"{"name":"new","version":"2"}"#));
    assert_eq!(session.server().instructions().map(Payload::as_str), Some(r#""hi""#));
    assert!(server.is_silent());
}

#[tokio::test]
async fn a_version_error_from_the_probe_means_modern_and_never_initialize() {
    let (opening, mut server) = start(options());
    let (id, ..) = server.request().await;
    server.fail(&id, r#"{"code":-32022,"message":"no","data":{"supported":["2026-07-28"]}}"#).await;
    let session = opening.await.expect("task").expect("open");
    assert_eq!(session.lanes().modern, Some(MODERN));
    assert!(server.is_silent());

    let (opening, mut server) = start(options());
    let (id, ..) = server.request().await;
    server.fail(&id, r#"{"code":-32022,"message":"no","data":{"supported":["2031-01-01"]}}"#).await;
    let error = opening.await.expect("task").expect_err("no common version");
    assert!(matches!(error, OpenError::NoCommonVersion(versions) if versions == ["2031-01-01"]));
}

#[tokio::test]
async fn any_other_answer_to_the_probe_means_initialize() {
    for error in [
        r#"{"code":-32601,"message":"no"}"#,
        r#"{"code":-32602,"message":"no"}"#,
        r#"{"code":0,"message":""}"#,
        r#""broken""#,
    ] {
        let (opening, mut server) = start(options());
        let (id, ..) = server.request().await;
        server.fail(&id, error).await;
        let params = initialize(&mut server).await;
        assert_eq!(params["protocolVersion"], "2025-11-25");
        assert_eq!(params["clientInfo"]["version"], "9");
        let session = opening.await.expect("task").expect("open");
        let lanes = Lanes { modern: None, legacy: Some(Lane::Legacy(Version::V2025_06_18)) };
        assert_eq!(session.lanes(), lanes, "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_probe_falls_back_without_cancelling_and_its_late_answer_is_ignored() {
    let (opening, mut server) = start(options());
    let before = tokio::time::Instant::now();
    let (probe, ..) = server.request().await;
    let (id, method, _) = server.request().await;
    assert_eq!((method.as_str(), before.elapsed()), ("initialize", Duration::from_secs(5)));
    server.answer(&probe, DISCOVERED).await;
    server.answer(&id, INITIALIZED).await;
    let session = opening.await.expect("task").expect("open");
    assert_eq!(session.lanes().modern, None);
    assert!(
        matches!(server.next().await, Message::Notification { method, .. } if method == "notifications/initialized")
    );
    assert!(server.is_silent());
}

#[tokio::test(start_paused = true)]
async fn a_modern_server_that_is_slow_to_start_is_not_lost() {
    let (opening, mut server) = start(options());
    let (probe, ..) = server.request().await;
    let (id, ..) = server.request().await;
    server.answer(&probe, DISCOVERED).await;
    server.fail(&id, r#"{"code":-32601,"message":"Method not found"}"#).await;
    let session = opening.await.expect("task").expect("open");
    assert_eq!(session.lanes(), Lanes { modern: Some(MODERN), legacy: None });
}

#[tokio::test(start_paused = true)]
async fn initialize_has_its_own_limit_and_is_never_cancelled() {
    let (opening, mut server) = start(OpenOptions { prefer: Version::V2025_03_26, ..options() });
    let (_, _, params) = server.request().await;
    assert_eq!(params["protocolVersion"], "2025-03-26");
    let error = opening.await.expect("task").expect_err("silence");
    assert!(matches!(error, OpenError::TimedOut(limit) if limit == Duration::from_secs(30)));
    assert!(server.is_silent());
}

#[tokio::test]
async fn both_lanes_are_opened_where_the_server_has_both() {
    let (opening, mut server) = start(OpenOptions { both_lanes: true, ..options() });
    let (id, ..) = server.request().await;
    server.answer(&id, BOTH).await;
    initialize(&mut server).await;
    let session = opening.await.expect("task").expect("open");
    assert_eq!(session.lanes().iter().count(), 2);

    let (opening, mut server) = start(OpenOptions { both_lanes: true, ..options() });
    let (id, ..) = server.request().await;
    server.answer(&id, DISCOVERED).await;
    assert_eq!(opening.await.expect("task").expect("open").lanes().legacy, None);
    assert!(server.is_silent());
}

#[tokio::test]
async fn old_versions_are_accepted_and_unknown_ones_are_not() {
    for (offered, expected) in [
        ("2025-11-25", Some(Version::V2025_11_25)),
        ("2025-03-26", Some(Version::V2025_03_26)),
        ("2024-11-05", Some(Version::V2024_11_05)),
        ("2023-01-01", None),
        ("2026-07-28", None),
    ] {
        let (opening, mut server) = start(OpenOptions { prefer: Version::V2025_11_25, ..options() });
        let (id, ..) = server.request().await;
        server.answer(&id, &format!(r#"{{"protocolVersion":"{offered}"}}"#)).await;
        match (opening.await.expect("task"), expected) {
            (Ok(session), Some(version)) => assert_eq!(session.lanes().legacy, Some(Lane::Legacy(version))),
            (Err(OpenError::NoCommonVersion(_)), None) => {}
            (other, _) => panic!("{offered}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_server_that_ends_at_the_sight_of_the_probe_is_told_apart() {
    let (opening, mut server) = start(options());
    server.request().await;
    server.0.out.send(Inbound::Closed(CloseReason::new(CloseCause::Exited(1)))).await.expect("open");
    let error = opening.await.expect("task").expect_err("closed");
    assert!(matches!(&error, OpenError::ClosedOnProbe(_)), "{error}");
    assert!(error.to_string().contains("exited with code 1"));
}

#[tokio::test]
async fn a_ping_is_answered_while_opening_and_a_question_is_refused() {
    let (opening, mut server) = start(OpenOptions { prefer: Version::V2025_11_25, ..options() });
    let (id, ..) = server.request().await;
    server.ask(1, "ping", "{}", None).await;
    assert_eq!(server.next().await, Message::Response { id: Id::number(1), result: json("{}") });
    server.ask(2, "roots/list", "{}", None).await;
    assert!(matches!(server.next().await, Message::Error { error, .. } if value(&error)["code"] == -32603));
    server.answer(&id, INITIALIZED).await;
    opening.await.expect("task").expect("open");
}

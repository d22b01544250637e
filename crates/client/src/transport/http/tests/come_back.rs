//! Tasks that a client comes back to over HTTP.

use super::*;
use crate::{CallError, Client, Handle, TaskStatus};

async fn connected(script: &Script, id: &str) -> Client {
    let builder = Client::builder(script.server()).prefer(Version::V2025_11_25);
    let (client, ()) = tokio::join!(builder.connect(), async {
        script.initialize(id).await;
        let general = script.next().await;
        assert_eq!(general.method, "GET");
        general.status("405 Method Not Allowed").await;
    });
    client.expect("connect")
}

/// The next question about the task, and the session it is asked in.
async fn asked(script: &Script) -> (Exchange, String) {
    let asked = script.expect("tasks/get").await;
    assert_eq!(asked.body["params"]["taskId"], "T");
    let session = asked.headers["mcp-session-id"].clone();
    (asked, session)
}

/// In the session that its handle names; in the client's own, if the server does not know it there.
#[tokio::test]
async fn a_task_is_asked_about_in_the_session_of_its_handle() {
    let script = Script::start().await;
    let client = connected(&script, "s2").await;
    let handle = Handle {
        endpoint: client.identity().to_owned(),
        version: "2025-11-25".to_owned(),
        task: "T".to_owned(),
        session: Some("s1".to_owned()),
        tool: "t".to_owned(),
        created: 0,
    };
    let working = json!({ "taskId": "T", "status": "working", "ttl": null });
    let (state, ()) = tokio::join!(client.get(&handle), async {
        // It is looked for before it is asked about.
        for _ in 0..2 {
            let (asked, session) = asked(&script).await;
            assert_eq!(session, "s1");
            asked.answer(&working).await;
        }
    });
    assert_eq!(state.expect("a state").status, TaskStatus::Working);

    let (state, ()) = tokio::join!(client.get(&handle), async {
        let (before, session) = asked(&script).await;
        assert_eq!(session, "s1");
        before.status("404 Not Found").await;
        let (own, session) = asked(&script).await;
        assert_eq!(session, "s2");
        own.answer(&working).await;
    });
    assert_eq!(state.expect("a state").status, TaskStatus::Working);

    // A task of no session is asked about at once.
    let handle = Handle { session: None, ..handle };
    let (state, ()) = tokio::join!(client.get(&handle), async {
        let (own, session) = asked(&script).await;
        assert_eq!(session, "s2");
        own.fail("200 OK", &json!({ "code": -32602, "message": "unknown" })).await;
    });
    assert!(matches!(state, Err(CallError::Expired { .. })), "{state:?}");
}

use std::os::unix::fs::PermissionsExt;

use taskgate_engine::{MemoryStore, NodeSettings};

use super::*;

fn desk() -> Desk {
    Desk::new(
        Engine::new(std::sync::Arc::new(MemoryStore::new()), NodeSettings::default()).expect("an engine"),
    )
}

fn show(task: &str) -> AdminRequest {
    AdminRequest::Show { task: task.to_owned() }
}

#[tokio::test]
async fn what_is_no_task_is_told_so_over_the_socket() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = directory.path().join("tasks.db");
    std::fs::write(&store, "").expect("written");
    // Left by one that was killed.
    std::fs::write(socket_of(&store), "").expect("written");
    let socket = AdminSocket::serve(&store, desk()).expect("it listens");
    let path = socket_of(&store);
    let mode = std::fs::metadata(&path).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    for name in ["", "x", "0123456789abcdef", "éééééééé", "ffffffffffffffff"] {
        let reply = ask(&store, &show(name)).await.expect("an answer").expect("somebody");
        assert!(matches!(reply, AdminReply::Refused { why: Why::NotFound, .. }), "{name}: {reply:?}");
    }
    drop(socket);
    assert!(!path.exists());
    assert!(ask(&store, &show("x")).await.expect("nobody").is_none());
    // Left by one that was killed: nobody listens there.
    drop(std::os::unix::net::UnixListener::bind(&path).expect("bound"));
    assert!(path.exists() && ask(&store, &show("x")).await.expect("nobody").is_none());
}

/// Silent, endless and hostile ones hold nobody up for long.
#[tokio::test(start_paused = true)]
async fn whoever_does_not_come_to_the_point_is_left() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let directory = tempfile::tempdir().expect("a directory");
    let store = directory.path().join("tasks.db");
    std::fs::write(&store, "").expect("written");
    let _socket = AdminSocket::serve(&store, desk()).expect("it listens");
    let mut held = Vec::new();
    for number in 0..40 {
        let mut stream = tokio::net::UnixStream::connect(socket_of(&store)).await.expect("connected");
        if number % 2 == 0 {
            stream.write_all(b"{\"show\":").await.expect("sent");
        }
        held.push(stream);
    }
    let reply = ask(&store, &show("x")).await.expect("an answer").expect("somebody");
    assert!(matches!(reply, AdminReply::Refused { why: Why::NotFound, .. }), "{reply:?}");
    let mut endless = tokio::net::UnixStream::connect(socket_of(&store)).await.expect("connected");
    // It is cut off somewhere.
    let _ = endless.write_all(&vec![b' '; 2 << 20]).await;
    let mut said = String::new();
    let _ = endless.read_to_string(&mut said).await;
    assert!(said.is_empty() || said.contains("no request"), "{said}");
}

/// What answers there may be anything.
#[tokio::test]
async fn what_is_no_gateway_is_an_error() {
    use tokio::io::AsyncWriteExt;
    let directory = tempfile::tempdir().expect("a directory");
    let store = directory.path().join("tasks.db");
    std::fs::write(&store, "").expect("written");
    let listener = tokio::net::UnixListener::bind(socket_of(&store)).expect("bound");
    for said in ["", "{}\n", "nonsense", "\u{0}"] {
        let (asked, ()) = {
            let request = show("x");
            tokio::join!(ask(&store, &request), async {
                let (mut stream, _) = listener.accept().await.expect("asked");
                stream.write_all(said.as_bytes()).await.expect("said");
            })
        };
        assert!(asked.is_err(), "{said:?}: {asked:?}");
    }
}

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
    // Left by one that was killed.
    std::fs::write(socket_of(&store), "").expect("written");
    let socket = AdminSocket::serve(&store, desk()).expect("it listens");
    let path = socket_of(&store);
    let mode = std::fs::metadata(&path).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    for name in ["", "x", "0123456789abcdef", "éééééééé", "ffffffffffffffff"] {
        let reply = ask(&path, &show(name)).await.expect("an answer");
        assert!(matches!(reply, AdminReply::Refused { why: Why::NotFound, .. }), "{name}: {reply:?}");
    }
    drop(socket);
    assert!(!path.exists());
    assert!(ask(&path, &show("x")).await.is_err());
}

use std::path::Path;

use super::*;
use crate::Ledger;

const KEYED: &str = "io.taskgate/idempotency-key";
const FIND: &str = "io.taskgate/idempotency-find";

/// One life of a program: a runtime that ends without a word, as with a kill.
pub fn life<T>(what: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    let runtime = runtime.expect("a runtime");
    let done = runtime.block_on(what);
    runtime.shutdown_background();
    done
}

/// A client with this ledger, and its server, which honours keys or not.
async fn with(ledger: &Path, version: &str, honours: bool) -> (Client, Server, Script) {
    let mut script = Script::new();
    let ledger = Ledger::open(ledger).expect("a ledger");
    let builder = script.builder().answers(Answers::ELICITATION).ledger(ledger);
    let experimental = if honours { json!({ KEYED: {} }) } else { json!({}) };
    let (client, server) = tokio::join!(builder.connect(), async {
        let mut server = script.next().await;
        server.experimental = experimental;
        server.open(version).await;
        server
    });
    (client.expect("connect"), server, script)
}

async fn only(client: &Client) -> PendingCall {
    let mut calls = client.resume_all().await.expect("a ledger");
    assert_eq!(calls.len(), 1);
    calls.pop().expect("it is")
}

pub fn file() -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("ledger.db");
    (folder, file)
}

/// A task is followed to its end in the next life, and only once: what has ended is not resumed.
#[test]
fn a_task_is_gone_on_with_in_the_next_life() {
    for version in [OLD, NEW] {
        let (_folder, file) = file();
        life(async {
            let (client, mut server, _script) = with(&file, version, false).await;
            let mut call = client.call("t", json!({}));
            let request = server.begin(version, 1000).await;
            assert!(request.params["_meta"].get(KEYED).is_none(), "only where it is honoured");
            while call.handle().is_none() {
                call.next().await;
            }
            server.state("working", json!({})).await;
        });
        life(async {
            let (client, mut server, _script) = with(&file, version, false).await;
            let call = only(&client).await;
            // It is this life's by now.
            assert!(client.resume_all().await.expect("a ledger").is_empty());
            let (called, ()) = tokio::join!(call, server.complete(version));
            assert_eq!(called.expect("a result").text(), "done");
            assert_eq!(server.calls, 0);
        });
        life(async {
            let (client, _server, _script) = with(&file, version, false).await;
            assert!(client.resume_all().await.expect("a ledger").is_empty());
        });
    }
}

/// Whoever looks at what is open sees calls of every life, with or without a task, and takes none of them over.
#[test]
fn what_is_open_can_be_looked_at() {
    let (_folder, file) = file();
    life(async {
        let (client, mut server, _script) = with(&file, NEW, false).await;
        let _sent = client.call("u", json!({}));
        server.expect("tools/call").await;
        let mut task = client.call("t", json!({}));
        server.begin(NEW, 1000).await;
        // That it is told says that it is written.
        while !matches!(task.next().await, Some(Event::Accepted(_))) {}
        let ledger = Ledger::open(&file).expect("a ledger");
        let open = ledger.open_calls().await.expect("what is open");
        let [sent, accepted] = &open[..] else { panic!("{open:?}") };
        let id = |handle: Option<Handle>| handle.expect("it is a task").task;
        assert_eq!((accepted.tool.as_str(), id(accepted.handle.clone())), ("t", id(task.handle())));
        assert_eq!((sent.tool.as_str(), &sent.handle), ("u", &None));
        assert_eq!((accepted.endpoint.as_str(), accepted.age().as_secs() < 600), (client.identity(), true));
    });
    life(async {
        let (client, mut server, _script) = with(&file, NEW, false).await;
        let calls = client.resume_all().await.expect("a ledger");
        assert_eq!(calls.len(), 2, "looking took none of them");
        let ((), ()) = tokio::join!(server.complete(NEW), async {
            for call in calls {
                // One has a result, of the other nobody knows.
                let _ = call.result().await;
            }
        });
        let ledger = Ledger::open(&file).expect("a ledger");
        assert_eq!(ledger.open_calls().await.expect("what is open"), []);
    });
}

/// Case 29: a call whose answer was never seen is found by its key, without its arguments; where that is not possible it is
/// reported, once, and not made again.
#[test]
fn a_call_whose_answer_was_never_seen_is_found_or_reported() {
    for version in [OLD, NEW] {
        for honours in [true, false] {
            let (_folder, file) = file();
            let key = life(async {
                let (client, mut server, _script) = with(&file, version, honours).await;
                let _call = client.call("t", json!({ "a": 1 }));
                if version == OLD {
                    server.tools("optional").await;
                }
                let request = server.expect("tools/call").await;
                request.params["_meta"].get(KEYED).cloned()
            });
            assert_eq!(key.is_some(), honours);
            life(async {
                let (client, mut server, _script) = with(&file, version, honours).await;
                let call = only(&client).await;
                if !honours {
                    assert!(matches!(call.await, Err(CallError::Uncertain { .. })));
                    assert_eq!(server.calls, 0);
                    return;
                }
                let (called, ()) = tokio::join!(call, async {
                    let request = server.expect("tools/call").await;
                    let meta = &request.params["_meta"];
                    assert_eq!((meta.get(KEYED), &meta[FIND]), (key.as_ref(), &json!(true)));
                    assert!(request.params.get("arguments").is_none());
                    assert_eq!(request.params["task"].is_object(), version == OLD);
                    server.accept(&request, version, 100).await;
                    server.complete(version).await;
                });
                assert_eq!(called.expect("a result").text(), "done");
            });
            life(async {
                let (client, _server, _script) = with(&file, version, honours).await;
                assert!(client.resume_all().await.expect("a ledger").is_empty());
            });
        }
    }
}

/// A call that its server has never seen is made where the program knows the arguments, under the same key; with other
/// arguments, or none, it is not.
#[test]
fn a_call_that_never_arrived_is_made_with_its_arguments() {
    for knows in [true, false] {
        let (_folder, file) = file();
        let key = life(async {
            let (client, mut server, _script) = with(&file, NEW, true).await;
            let _call = client.call("t", json!({ "a": 1, "b": 2 }));
            server.expect("tools/call").await.params["_meta"][KEYED].clone()
        });
        life(async {
            let (client, mut server, _script) = with(&file, NEW, true).await;
            let mut calls = client
                .resume_all_with(|unseen| {
                    assert_eq!(
                        (unseen.tool.as_str(), unseen.idempotency_key.as_deref()),
                        ("t", key.as_str())
                    );
                    knows.then(|| json!({ "b": 2, "a": 1 }))
                })
                .await
                .expect("a ledger");
            let (called, ()) = tokio::join!(calls.remove(0), async {
                let request = server.expect("tools/call").await;
                let error =
                    json!({ "code": -32602, "message": "unknown", "data": { "reason": "key_not_found" } });
                server.fail_with(&request, error).await;
                if knows {
                    let request = server.expect("tools/call").await;
                    let meta = &request.params["_meta"];
                    assert_eq!((&meta[KEYED], meta.get(FIND)), (&key, None));
                    assert_eq!(request.params["arguments"], json!({ "a": 1, "b": 2 }));
                    server.answer(&request, result("done")).await;
                }
            });
            match called {
                Ok(called) => assert_eq!((called.text().as_str(), knows), ("done", true)),
                Err(error) => assert!(matches!(error, CallError::Uncertain { .. }) && !knows, "{error:?}"),
            }
        });
    }
    let (_folder, file) = file();
    life(async {
        let (client, mut server, _script) = with(&file, NEW, true).await;
        let _call = client.call("t", json!({ "a": 1 }));
        server.expect("tools/call").await;
    });
    life(async {
        let (client, _server, _script) = with(&file, NEW, true).await;
        let resumed = client.resume_all_with(|_| Some(json!({ "a": 2 }))).await;
        assert!(matches!(resumed, Err(CallError::Params(_))), "{resumed:?}");
    });
}

/// In one life too: an answer that is lost on the way is looked for by the key, and nothing is sent twice that may run twice.
#[test]
fn an_answer_that_is_lost_is_found_by_its_key() {
    let (_folder, file) = file();
    life(async {
        let (client, mut server, mut script) = with(&file, NEW, true).await;
        let (called, ()) = tokio::join!(client.call("t", json!({})), async {
            let request = server.expect("tools/call").await;
            server.lose(&request, crate::FailureKind::Interrupted).await;
            let request = server.expect("tools/call").await;
            assert_eq!(request.params["_meta"][FIND], true);
            server.close().await;
            let mut server = script.next().await;
            server.experimental = json!({ KEYED: {} });
            server.open(NEW).await;
            let request = server.expect("tools/call").await;
            assert_eq!(request.params["_meta"][FIND], true);
            server.accept(&request, NEW, 100).await;
            server.complete(NEW).await;
        });
        assert_eq!(called.expect("a result").text(), "done");
    });
}

/// A question that was answered is not asked again in the next life, whatever the server still shows.
#[test]
fn what_was_answered_is_not_asked_in_the_next_life() {
    let (_folder, file) = file();
    let both = json!({ "inputRequests": { "a": form("A?"), "b": form("B?") } });
    life(async {
        let (client, mut server, _script) = with(&file, NEW, false).await;
        let mut call = client.call("t", json!({}));
        server.begin(NEW, 100).await;
        server.state("input_required", both.clone()).await;
        asked(&mut call).await.answer(json!({}));
        let update = server.expect("tasks/update").await;
        server.answer(&update, json!({})).await;
        while !matches!(call.next().await, Some(Event::Answered(key)) if key == "a") {}
    });
    life(async {
        let (client, mut server, _script) = with(&file, NEW, false).await;
        let mut call = only(&client).await;
        server.state("input_required", both).await;
        assert_eq!(asked(&mut call).await.key, "b");
        server.complete(NEW).await;
        call.result().await.expect("a result");
    });
}

/// Case 37: of what was sent, asked and answered there is nothing in the file, and nobody else can read it.
#[test]
fn no_secret_is_in_the_file() {
    let (folder, file) = file();
    life(async {
        let (client, mut server, _script) = with(&file, NEW, false).await;
        let mut call = client.call("t", json!({ "token": "sesame" }));
        server.begin(NEW, 100).await;
        server.state("input_required", json!({ "inputRequests": { "a": form("sesame?") } })).await;
        asked(&mut call).await.answer(json!({ "password": "sesame" }));
        let update = server.expect("tasks/update").await;
        server.answer(&update, json!({})).await;
        server.state("completed", json!({ "result": result("sesame") })).await;
        call.result().await.expect("a result");
    });
    let mut files = 0;
    for entry in std::fs::read_dir(folder.path()).expect("a folder") {
        let path = entry.expect("an entry").path();
        let bytes = std::fs::read(&path).expect("it can be read");
        assert!(!bytes.windows(6).any(|six| six == b"sesame"), "{}", path.display());
        files += 1;
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = std::fs::metadata(&path).expect("it is there").permissions().mode();
            assert_eq!(mode & 0o077, 0, "{}", path.display());
        }
    }
    assert!(files > 0);
}

/// A result that nobody has taken is there again in the next life.
#[test]
fn a_result_that_nobody_took_is_not_lost() {
    let (_folder, file) = file();
    for takes in [false, true] {
        life(async {
            let (client, mut server, _script) = with(&file, NEW, false).await;
            let mut call = match client.resume_all().await.expect("a ledger").pop() {
                Some(call) => call,
                None => {
                    let call = client.call("t", json!({}));
                    server.begin(NEW, 100).await;
                    call
                }
            };
            let (events, ()) = tokio::join!(events(&mut call), server.complete(NEW));
            assert!(matches!(events.last(), Some(Event::Done)));
            if takes {
                call.result().await.expect("a result");
            }
        });
    }
    life(async {
        let (client, _server, _script) = with(&file, NEW, false).await;
        assert!(client.resume_all().await.expect("a ledger").is_empty());
    });
}

/// What ended is noted as what it was, and what only is not followed any more has not ended.
#[test]
fn a_task_that_is_let_go_of_has_not_ended() {
    let (_folder, file) = file();
    life(async {
        let (client, mut server, _script) = with(&file, NEW, false).await;
        let mut call = client.call("t", json!({}));
        server.begin(NEW, 100).await;
        while call.handle().is_none() {
            call.next().await;
        }
        call.detach();
        let plain = client.call("t", json!({}));
        let request = loop {
            let (method, request) = server.request().await;
            if method == "tools/call" {
                break request;
            }
            server.answer(&request, json!({ "taskId": "T", "status": "working" })).await;
        };
        server.answer(&request, result("done")).await;
        plain.await.expect("a result");
    });
    life(async {
        let (client, mut server, _script) = with(&file, NEW, false).await;
        let (called, ()) = tokio::join!(only(&client).await, server.complete(NEW));
        called.expect("a result");
    });
}

/// Without a ledger there is nothing to go on with, which is said; a file of something else is left alone.
#[test]
fn what_is_no_ledger_is_refused() {
    life(async {
        let (client, _server, _script) = open(NEW).await;
        assert!(matches!(client.resume_all().await, Err(CallError::Ledger(_))));
    });
    let (_folder, file) = file();
    let db = rusqlite::Connection::open(&file).expect("a database");
    db.execute_batch("CREATE TABLE theirs (x)").expect("written");
    let error = Ledger::open(&file).expect_err("theirs");
    assert!(error.to_string().contains("something else"), "{error}");
    db.execute_batch("DROP TABLE theirs; PRAGMA user_version = 99").expect("written");
    let error = Ledger::open(&file).expect_err("newer");
    assert!(error.to_string().contains("newer"), "{error}");
    let error = Ledger::open(file.with_file_name("no-such-folder").join("x")).expect_err("no folder");
    assert!(error.path.ends_with("no-such-folder/x"), "{error}");
    #[cfg(unix)]
    {
        // Opened, it would wait for somebody at its other end.
        let pipe = file.with_file_name("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo");
        assert!(made.success());
        let error = Ledger::open(&pipe).expect_err("no file");
        assert!(error.to_string().contains("no regular file"), "{error}");
    }
}

/// A ledger that was written before tasks could be kept in it is taken over as it is.
#[test]
fn an_older_ledger_is_brought_up_to_date() {
    let (_folder, file) = file();
    life(async {
        let (client, mut server, _script) = with(&file, NEW, false).await;
        let _call = client.call("t", json!({}));
        server.expect("tools/call").await;
    });
    let db = rusqlite::Connection::open(&file).expect("a file");
    db.execute_batch("DROP TABLE hosted; PRAGMA user_version = 1;").expect("as it was");
    drop(db);
    life(async {
        let ledger = Ledger::open(&file).expect("a ledger");
        assert_eq!(ledger.open_calls().await.expect("what is open").len(), 1);
        assert!(ledger.take_over_hosted("memory:test".to_owned()).await.expect("a table").is_empty());
    });
}

/// Two programs share a ledger: neither goes on with what the other is at, until that has ended.
#[test]
fn what_another_program_is_at_is_left_to_it() {
    let (_folder, file) = file();
    let other = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let other = other.expect("a runtime");
    // It follows its task for as long as its runtime lives.
    let handle = other.block_on(async {
        let (client, mut server, script) = with(&file, NEW, false).await;
        let mut task = client.call("t", json!({}));
        server.begin(NEW, 1000).await;
        while !matches!(task.next().await, Some(Event::Accepted(_))) {}
        let handle = task.handle().expect("a handle");
        let held = async move {
            let _held = (client, server, script, task);
            std::future::pending::<()>().await;
        };
        drop(tokio::spawn(held));
        handle
    });
    life(async {
        let (client, _server, _script) = with(&file, NEW, false).await;
        assert_eq!(client.resume_all().await.expect("a ledger").len(), 0);
        let ledger = Ledger::open(&file).expect("a ledger");
        assert_eq!(ledger.open_calls().await.expect("what is open").len(), 1, "it can be seen");
    });
    // Whoever follows it beside the other, and dies, leaves it to the other.
    life(async {
        let (client, mut server, _script) = with(&file, NEW, false).await;
        let _second = client.resume(handle);
        server.state("working", json!({})).await;
    });
    life(async {
        let (client, _server, _script) = with(&file, NEW, false).await;
        assert_eq!(client.resume_all().await.expect("a ledger").len(), 0);
    });
    drop(other);
    life(async {
        let (client, _server, _script) = with(&file, NEW, false).await;
        only(&client).await;
    });
    let left: Vec<_> = std::fs::read_dir(file.parent().expect("a folder")).expect("read").flatten().collect();
    let lives = left.iter().filter(|entry| entry.path().extension().is_some_and(|end| end == "life"));
    assert_eq!(lives.count(), 0, "{left:?}");
}

/// A full disk costs no call that could not be found again: it is not made, or its task is let go of.
#[tokio::test(start_paused = true)]
async fn without_room_nothing_is_sent_that_is_not_noted() {
    let (_folder, file) = file();
    let ledger = Ledger::open(&file).expect("a ledger");
    let mut script = Script::new();
    let builder = script.builder().ledger(ledger.clone());
    let (client, mut server) = script.open(builder, NEW).await;
    let first = client.call("t", json!({}));
    let request = server.expect("tools/call").await;
    ledger.is_full();
    let second = client.call("t", json!({})).result().await;
    assert!(matches!(&second, Err(CallError::Ledger(why)) if why.contains("readonly")), "{second:?}");
    server.accept(&request, NEW, 1000).await;
    let (failed, ()) = tokio::join!(async { first.result().await }, async {
        let request = server.expect("tasks/cancel").await;
        server.answer(&request, json!({})).await;
    });
    assert!(matches!(failed, Err(CallError::Ledger(_))), "{failed:?}");
    assert_eq!(server.calls, 1);
}

// Claims are made by unwrapping.
#![allow(clippy::unwrap_used)]

mod keys;
mod places;
mod rotation;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use parking_lot::Mutex;
use taskgate_task::{
    Lifetime, NewTask, NodeId, Outcome, Owner, Payload, Question, Step, TaskId, Timestamp, WorkClass,
};

use super::{Key, SealedStore};
use crate::store::{Kept, KeptTask, StoreError, conformance};
use crate::{MemoryStore, SqliteOptions, SqliteStore, Store};

const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);
/// Stands in every value that a store must not show.
const SENTINEL: &str = "kingfisher";

fn key(byte: u8) -> Key {
    Key::new(&[byte; 32])
}

fn sqlite(path: &Path) -> Arc<dyn Store> {
    Arc::new(SqliteStore::open(SqliteOptions::new(path)).unwrap())
}

async fn open(beneath: Arc<dyn Store>, keys: &[u8]) -> Result<SealedStore, StoreError> {
    SealedStore::open(beneath, keys.iter().copied().map(key).collect()).await
}

/// Opens a store of which nobody waits for an answer.
fn sealed(beneath: Arc<dyn Store>) -> SealedStore {
    let opening = open(beneath, &[1, 2]);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(opening).unwrap()
        });
        waiting.join().unwrap()
    })
}

fn json(text: &str) -> Payload {
    Payload::parse(text.to_owned()).unwrap()
}

/// A payload that says where it stands.
fn said(place: &str) -> Payload {
    Payload::from_value(&format!("{SENTINEL} {place}")).unwrap()
}

fn new_task(number: u8) -> NewTask {
    NewTask {
        id: TaskId::from_entropy(NOW, [number; 19]),
        owner: Owner::local(),
        runner: "echo".to_owned(),
        work: said("work"),
        class: WorkClass::Resumable,
        max_attempts: 3,
        node: NodeId::from_number(7),
        key: None,
        lifetime: Lifetime {
            run_deadline: NOW.after(Duration::from_secs(60)),
            idle_limit: None,
            retention: Duration::from_secs(10),
            ttl: Duration::from_secs(70),
        },
        poll_interval: Duration::from_secs(1),
        status_message: Some(format!("{SENTINEL} first message")),
        checkpoint: Some(said("checkpoint")),
        created_at: NOW,
    }
}

fn ask() -> Step {
    let question = |key: &str| Question {
        key: key.to_owned(),
        method: "elicitation/create".to_owned(),
        params: Some(said(key)),
    };
    Step::Ask { fence: 1, questions: vec![question("q"), question("r")], resume: Some(said("resume")) }
}

fn answer(key: &str) -> Step {
    Step::Answer { answers: vec![(key.to_owned(), said("answer"))] }
}

fn finish() -> Step {
    let summary = Some(format!("{SENTINEL} summary"));
    Step::Finish { fence: 1, outcome: Outcome::Result { body: said("result"), is_error: true, summary } }
}

/// A task for each of these ways through its life.
async fn fill(store: &dyn Store) -> Vec<TaskId> {
    let error = Outcome::Error { body: said("error"), summary: format!("{SENTINEL} error text") };
    let lost =
        Step::Lose { fence: 1, message: format!("{SENTINEL} lost"), loss: taskgate_task::Loss::ShutDown };
    let ways = [
        vec![],
        vec![Step::Report { fence: 1, message: format!("{SENTINEL} progress") }],
        vec![ask(), answer("q")],
        vec![ask(), answer("q"), answer("r")],
        vec![finish()],
        vec![Step::Finish { fence: 1, outcome: error }],
        vec![Step::Checkpoint { fence: 1, state: json(&format!("\"{}\"", SENTINEL.repeat(5_000))) }],
        vec![lost],
    ];
    let mut ids = Vec::new();
    for (number, way) in (1..).zip(ways) {
        let id = store.create(new_task(number)).await.unwrap().id;
        for step in way {
            store.apply(id, step, NOW).await.unwrap();
        }
        ids.push(id);
    }
    ids
}

async fn everything(store: &dyn Store) -> Vec<Kept> {
    store.dump(None, 1000).await.unwrap()
}

fn tasks(kept: Vec<Kept>) -> Vec<KeptTask> {
    kept.into_iter().filter_map(|kept| if let Kept::Task(kept) = kept { Some(*kept) } else { None }).collect()
}

/// What stands in the store beneath, as anybody sees it who has a copy.
async fn seen(beneath: &dyn Store) -> String {
    let mut export = Vec::new();
    crate::store::transfer::export(beneath, &mut export).await.unwrap();
    String::from_utf8(export).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_encrypted_memory_conforms() {
    conformance::run_all(|| sealed(Arc::new(MemoryStore::new()))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_encrypted_file_conforms() {
    let dirs = Mutex::new(Vec::new());
    conformance::run_all(|| {
        let dir = tempfile::tempdir().unwrap();
        let store = sealed(sqlite(&dir.path().join("tasks.db")));
        dirs.lock().push(dir);
        store
    })
    .await;
}

#[cfg(feature = "postgres")]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_encrypted_database_conforms() {
    use crate::store::postgres::tests;
    conformance::run_all(|| sealed(Arc::new(tests::open(&tests::options())))).await;
}

/// Every value of every task is there for who has the key, and for nobody else.
#[tokio::test]
async fn nothing_can_be_read_without_the_key() {
    let (plain, beneath) = (MemoryStore::new(), MemoryStore::new());
    fill(&plain).await;
    assert!(seen(&plain).await.matches(SENTINEL).count() > 30);
    let store = open(Arc::new(beneath.clone()), &[1]).await.unwrap();
    fill(&store).await;
    let secret = store.secret("request-state").await.unwrap();
    let text = seen(&beneath).await;
    assert!(!text.contains(SENTINEL), "{text}");
    let digits: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(!text.contains(&digits), "{text}");
    assert_eq!(tasks(everything(&store).await), tasks(everything(&plain).await));
}

/// Long values are decrypted elsewhere, and are as they were.
#[tokio::test]
async fn long_values_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(sqlite(&dir.path().join("tasks.db")), &[1]).await.unwrap();
    let long = json(&format!("\"{}\"", "é".repeat(1 << 20)));
    let new = NewTask { work: long.clone(), checkpoint: Some(long.clone()), ..new_task(1) };
    let id = store.create(new).await.unwrap().id;
    assert_eq!(store.work(id).await.unwrap(), Some(long.clone()));
    assert_eq!(store.get(id).await.unwrap().unwrap().checkpoint, Some(long.clone()));
    let outcome = Outcome::Result { body: long, is_error: false, summary: None };
    store.apply(id, Step::Finish { fence: 1, outcome: outcome.clone() }, NOW).await.unwrap();
    assert_eq!(store.get(id).await.unwrap().unwrap().outcome, Some(outcome));
}

/// What is kept for the work may be as long as in any other store.
#[tokio::test]
async fn limits_are_those_of_a_store_without_a_key() {
    let store = open(Arc::new(MemoryStore::new()), &[1]).await.unwrap();
    let id = store.create(NewTask { checkpoint: None, ..new_task(1) }).await.unwrap().id;
    let long = |more: usize| json(&format!("\"{}\"", "x".repeat(taskgate_task::MAX_STATE - 2 + more)));
    let kept = store.apply(id, Step::Checkpoint { fence: 1, state: long(0) }, NOW).now_or_never();
    // It is long enough to be decrypted elsewhere, were it not known already.
    assert!(kept.is_none_or(|kept| kept.is_ok()));
    let refused = store.apply(id, Step::Checkpoint { fence: 1, state: long(1) }, NOW).await.unwrap_err();
    let length = taskgate_task::MAX_STATE + 1;
    assert!(matches!(refused, StoreError::Refused(taskgate_task::Refusal::TooLong(told)) if told == length));
}

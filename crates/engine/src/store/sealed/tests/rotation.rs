//! A key comes, another one goes.

use taskgate_task::Change;

use super::super::KeyId;
use super::*;
use crate::store::{KeptSecret, Resealed, unlock};

/// A store that takes so many rewritings and then fails, as one whose process is killed.
struct Mortal(MemoryStore, Mutex<u32>);

macro_rules! hand_on {
    ($($name:ident($($arg:ident: $kind:ty),*) -> $out:ty;)*) => {
        $(fn $name(&self, $($arg: $kind),*) -> crate::Stored<$out> { self.0.$name($($arg),*) })*
    };
}

impl Store for Mortal {
    hand_on! {
        create(new: NewTask) -> taskgate_task::Task;
        apply(id: TaskId, step: Step, now: Timestamp) -> Change;
        get(id: TaskId) -> Option<taskgate_task::Task>;
        work(id: TaskId) -> Option<Payload>;
        keyed(owner: &Owner, key: &taskgate_task::IdempotencyKey) -> Option<(TaskId, bool)>;
        list(owner: &Owner, after: Option<i64>, limit: usize) -> crate::store::Page;
        all(after: Option<i64>, limit: usize) -> crate::store::Page;
        tally(owner: Option<&Owner>) -> crate::Tally;
        due(now: Timestamp, limit: usize) -> Vec<TaskId>;
        ready(now: Timestamp, limit: usize) -> Vec<taskgate_task::Task>;
        orphans(limit: usize) -> Vec<taskgate_task::Task>;
        carried(node: NodeId, after: i64, limit: usize) -> Vec<taskgate_task::Task>;
        versions(ids: Vec<TaskId>) -> Vec<(TaskId, u64)>;
        events(id: TaskId) -> Vec<taskgate_task::Event>;
        load(kept: Vec<Kept>) -> ();
        keep(name: &str, fresh: Vec<u8>) -> Vec<u8>;
        join(node: crate::store::Node) -> ();
        renew(node: NodeId, until: Timestamp) -> bool;
        leave(node: NodeId) -> ();
        bury(node: NodeId, now: Timestamp) -> bool;
        nodes() -> Vec<crate::store::Node>;
    }

    /// A few at a time, so that there is a middle.
    fn dump(&self, after: Option<i64>, limit: usize) -> crate::Stored<Vec<Kept>> {
        self.0.dump(after, limit.min(2))
    }

    fn rewrite(&self, kept: Vec<KeptTask>) -> crate::Stored<usize> {
        let mut left = self.1.lock();
        if *left == 0 {
            return Box::pin(std::future::ready(Err(StoreError::Failed("killed".to_owned()))));
        }
        *left -= 1;
        self.0.rewrite(kept)
    }

    fn feed(&self) -> &crate::Feed {
        self.0.feed()
    }
}

async fn by_keys(beneath: &MemoryStore) -> (usize, usize) {
    let text = seen(beneath).await;
    let count = |byte: u8| text.matches(&format!("tgs1:{}:", key(byte).id())).count();
    (count(1), count(2))
}

/// A store that had no key goes on with one: what is old is read as it is until it is encrypted as well.
#[tokio::test]
async fn a_store_without_a_key_gets_one() {
    let beneath = MemoryStore::new();
    let ids = fill(&beneath).await;
    let secret = beneath.secret("request-state").await.unwrap();
    let plain = everything(&beneath).await;
    let store = open(Arc::new(beneath.clone()), &[1]).await.unwrap();
    assert_eq!(everything(&store).await, plain);
    assert_eq!(store.secret("request-state").await.unwrap(), secret);
    store.apply(ids[0], Step::Report { fence: 1, message: format!("{SENTINEL} new") }, NOW).await.unwrap();
    assert!(!seen(&beneath).await.contains(&format!("{SENTINEL} new")));
    assert!(seen(&beneath).await.contains(SENTINEL));

    let done = store.reseal().await.unwrap();
    assert_eq!(
        done,
        Resealed { tasks: ids.len() as u64, secrets: 1, had_plain: true, ..Resealed::default() }
    );
    assert!(!seen(&beneath).await.contains(SENTINEL));
    assert_eq!(store.secret("request-state").await.unwrap(), secret);
    assert_eq!(tasks(everything(&store).await)[1..], tasks(plain)[1..]);
    // There is nothing left to be done.
    assert_eq!(store.reseal().await.unwrap(), Resealed::default());
}

/// Rotation: a new key in front, then all is encrypted anew, then the old key goes.
#[tokio::test]
async fn an_old_key_can_go_when_all_is_encrypted_anew() {
    let beneath = MemoryStore::new();
    let old = open(Arc::new(beneath.clone()), &[1]).await.unwrap();
    let ids = fill(&old).await;
    let secret = old.secret("request-state").await.unwrap();
    let before = everything(&old).await;
    let both = open(Arc::new(beneath.clone()), &[2, 1]).await.unwrap();
    assert_eq!(everything(&both).await, before);
    both.apply(ids[0], Step::Report { fence: 1, message: "on".to_owned() }, NOW).await.unwrap();
    let (one, two) = by_keys(&beneath).await;
    assert!(one > 0 && two > 0, "{one} {two}");
    // Both are needed until then.
    assert!(matches!(open(Arc::new(beneath.clone()), &[2]).await, Err(StoreError::Keys(_))));
    assert!(matches!(open(Arc::new(beneath.clone()), &[1]).await, Err(StoreError::Keys(_))));

    let done = both.reseal().await.unwrap();
    assert_eq!((done.tasks, done.secrets, done.had_plain), (ids.len() as u64, 1, false));
    assert_eq!(done.dropped, [key(1).id()] as [KeyId; 1]);
    assert_eq!(by_keys(&beneath).await.0, 0);
    let new = open(Arc::new(beneath.clone()), &[2]).await.unwrap();
    assert_eq!(tasks(everything(&new).await)[1..], tasks(before)[1..]);
    assert_eq!(new.secret("request-state").await.unwrap(), secret);
    assert!(matches!(unlock(Arc::new(beneath.clone()), Vec::new()).await, Err(StoreError::Keys(_))));
    // A key that went may come back.
    let back = open(Arc::new(beneath.clone()), &[1, 2]).await.unwrap();
    back.reseal().await.unwrap();
    assert!(open(Arc::new(beneath), &[1]).await.is_ok());
}

/// Wherever it was interrupted, nothing is lost, both keys are still needed, and the next one ends it.
#[tokio::test]
async fn an_interrupted_rotation_is_gone_on_with() {
    for rewritings in 0..6 {
        let beneath = MemoryStore::new();
        let old = open(Arc::new(beneath.clone()), &[1]).await.unwrap();
        let ids = fill(&old).await;
        let before = everything(&old).await;
        let mortal = Arc::new(Mortal(beneath.clone(), Mutex::new(rewritings)));
        let dying = open(mortal, &[2, 1]).await.unwrap();
        let interrupted = dying.reseal().await.is_err();
        // There are eight tasks, two at a time.
        assert_eq!(interrupted, rewritings < 4, "{rewritings}");
        let both = open(Arc::new(beneath.clone()), &[2, 1]).await.unwrap();
        assert_eq!(everything(&both).await, before, "{rewritings}");
        if interrupted {
            assert!(open(Arc::new(beneath.clone()), &[2]).await.is_err());
            let rest = both.reseal().await.unwrap();
            assert_eq!(rest.tasks, ids.len() as u64 - 2 * u64::from(rewritings));
        }
        assert_eq!(everything(&open(Arc::new(beneath), &[2]).await.unwrap()).await, before);
    }
}

/// What does not open is told, stays, and keeps its key needed; the rest is done.
#[tokio::test]
async fn what_does_not_open_keeps_its_key() {
    let beneath = MemoryStore::new();
    let old = open(Arc::new(beneath.clone()), &[1]).await.unwrap();
    let ids = fill(&old).await;
    let mut first = tasks(everything(&beneath).await).remove(0);
    first.task.status_message = Some(format!("tgs1:{}:{}", key(1).id(), "A".repeat(80)));
    beneath.rewrite(vec![first]).await.unwrap();
    let both = open(Arc::new(beneath.clone()), &[2, 1]).await.unwrap();
    let done = both.reseal().await.unwrap();
    assert_eq!((done.tasks, done.dropped.len()), (ids.len() as u64 - 1, 0));
    assert!(matches!(&done.left[..], [line] if line.contains("the status message of TaskId(")), "{done:?}");
    assert!(open(Arc::new(beneath), &[2]).await.is_err());
}

/// A task that has moved meanwhile keeps what it has become.
#[tokio::test]
async fn a_task_that_has_moved_is_not_written_over() {
    let dir = tempfile::tempdir().unwrap();
    let stores: Vec<Arc<dyn Store>> =
        vec![Arc::new(MemoryStore::new()), sqlite(&dir.path().join("tasks.db")), another()];
    for store in stores {
        let ids = fill(&*store).await;
        let mut read = tasks(everything(&*store).await);
        store.apply(ids[0], Step::Cancel, NOW).await.unwrap();
        let now = store.get(ids[0]).await.unwrap();
        for kept in &mut read {
            kept.task.status_message = Some("rewritten".to_owned());
            kept.work = kept.work.as_ref().map(|_| json(&format!("\"{}\"", "w".repeat(30_000))));
        }
        assert_eq!(store.rewrite(read.clone()).await.unwrap(), ids.len() - 1);
        assert_eq!(store.get(ids[0]).await.unwrap(), now);
        let after = tasks(everything(&*store).await);
        assert_eq!(after[1..], read[1..]);
        // Back again, and long values leave nothing behind.
        assert_eq!(store.rewrite(after.clone()).await.unwrap(), ids.len());
        assert_eq!(tasks(everything(&*store).await), after);
        assert_eq!(store.rewrite(vec![]).await.unwrap(), 0);
    }
    let found = SqliteStore::check(&SqliteOptions::new(dir.path().join("tasks.db"))).unwrap();
    assert_eq!(found.wrong, [""; 0]);
}

#[cfg(feature = "postgres")]
fn another() -> Arc<dyn Store> {
    use crate::store::postgres::tests;
    Arc::new(tests::open(&tests::options()))
}

#[cfg(not(feature = "postgres"))]
fn another() -> Arc<dyn Store> {
    Arc::new(MemoryStore::new())
}

/// A secret that one process has kept is the one that all have.
#[tokio::test]
async fn a_secret_is_the_same_for_all() {
    let beneath = MemoryStore::new();
    let one = open(Arc::new(beneath.clone()), &[1]).await.unwrap();
    let two = open(Arc::new(beneath.another()), &[1]).await.unwrap();
    assert_eq!(one.secret("a").await.unwrap(), two.secret("a").await.unwrap());
    let kept: Vec<KeptSecret> = everything(&beneath)
        .await
        .into_iter()
        .filter_map(|kept| if let Kept::Secret(secret) = kept { Some(secret) } else { None })
        .collect();
    assert_eq!(kept.len(), 2);
    // Who uses the store beneath without the key is not given something else for it.
    assert!(beneath.secret("a").await.is_err());
}

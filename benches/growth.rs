//! How a SQLite store behaves when it has grown: `cargo bench -p taskgate-engine --bench growth`.
//!
//! A million ended tasks and a hundred thousand open ones are made with SQL, since a commit for each would take too long. What
//! is asked of the store is timed at that size and at a tenth of it, in turns; then starts, and creations while very many
//! tasks expire. `TASKGATE_GROWTH=10` takes a tenth of everything.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use rusqlite::Connection;
use taskgate_engine::{Engine, NodeSettings, SqliteOptions, SqliteStore, Store, Stored};
use taskgate_task::{Lifetime, NewTask, NodeId, Outcome, Owner, Payload, Step, TaskId, Timestamp, WorkClass};
use tokio::runtime::Runtime;

const OWNERS: i64 = 1000;
const CHUNK: i64 = 10_000;

/// What is made.
#[derive(Clone, Copy)]
struct Sizes {
    ended: i64,
    /// Open tasks that wait for their caller's answers: nobody carries them.
    parked: i64,
    /// Open tasks that a process carried that is gone.
    orphans: i64,
    /// Ended tasks whose retention is over.
    expired: i64,
}

fn main() {
    let part: i64 = std::env::var("TASKGATE_GROWTH").ok().and_then(|part| part.parse().ok()).unwrap_or(1);
    let runtime = Runtime::new().expect("a runtime");
    let (million, many) = (1_000_000 / part, 100_000 / part);
    let small = Sizes { ended: million / 10, parked: many / 10, orphans: 0, expired: 0 };
    let large = Sizes { ended: million, parked: many, orphans: 0, expired: 0 };

    let dir = tempfile::tempdir().expect("a directory");
    let (small_file, large_file) = (make(dir.path(), "small", small), make(dir.path(), "large", large));
    started(&runtime, "none orphaned", &large_file);
    {
        let (small, large) = (open(&small_file), open(&large_file));
        questions(&runtime, &small, &large);
    }
    std::fs::remove_file(&large_file).expect("removed");

    let orphaned = Sizes { ended: million / 10, parked: 0, orphans: many, expired: 0 };
    let file = make(dir.path(), "orphaned", orphaned);
    started(&runtime, &format!("{many} orphaned"), &file);
    std::fs::remove_file(&file).expect("removed");

    let expired = Sizes { ended: 0, parked: 0, orphans: 0, expired: many };
    expiry(&runtime, &make(dir.path(), "expired", expired), many);
}

fn open(path: &Path) -> SqliteStore {
    SqliteStore::open(SqliteOptions::new(path)).expect("the store opens")
}

fn now() -> Timestamp {
    use taskgate_engine::Clock;
    taskgate_engine::SystemClock.now()
}

fn locator(number: i64) -> i64 {
    (number + 1) << 21
}

fn id(number: i64) -> TaskId {
    let mut secret = [0; 16];
    secret[8..].copy_from_slice(&number.to_be_bytes());
    TaskId::from_parts(locator(number), secret)
}

fn owner(number: i64) -> Owner {
    Owner::named(&format!("https://issuer.example|subject-{}|client", number % OWNERS))
}

/// Makes a store, ten thousand tasks a commit.
fn make(dir: &Path, name: &str, sizes: Sizes) -> PathBuf {
    let path = dir.join(format!("{name}.db"));
    drop(open(&path));
    let begun = Instant::now();
    let db = Connection::open(&path).expect("opened");
    db.execute_batch("PRAGMA synchronous = OFF; PRAGMA cache_size = -65536").expect("set");
    let at = now().as_millis();
    let result = r#"{"content":[{"type":"text","text":"the quick brown fox jumps over the lazy dog"}]}"#;
    let work = r#"{"name":"echo","arguments":{"text":"the quick brown fox jumps over the lazy dog"}}"#;
    let parked = r#"{"asked":[{"key":"q","method":"elicitation/create","asked_at":1,"round":1}],"rounds":1,"resume":null}"#;
    let mut first = 0;
    let kinds = [
        (sizes.ended, format!("3, 2, NULL, NULL, {at}, {at} + 604800000, 1, NULL, '{result}', NULL")),
        (sizes.parked, format!("2, 2, NULL, NULL, NULL, {at} + 86400000, NULL, '{parked}', NULL, '{work}'")),
        (sizes.orphans, format!("1, 1, 7, NULL, NULL, {at} + 86400000, NULL, NULL, NULL, '{work}'")),
        (sizes.expired, format!("3, 2, NULL, NULL, {at}, {at}, 1, NULL, '{result}', NULL")),
    ];
    for (count, kind) in kinds {
        let mut done = 0;
        while done < count {
            let some = CHUNK.min(count - done);
            db.execute_batch(&format!(
                "BEGIN;
                 CREATE TEMP TABLE number AS
                 WITH RECURSIVE counting (n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM counting LIMIT {some})
                 SELECT n FROM counting;
                 INSERT INTO task (locator, secret, owner, runner, class, created_at, updated_at, run_deadline,
                     retention_ms, ttl_ms, poll_interval_ms, fence, attempts, max_attempts,
                     status, version, carrier, ready_at, ended_at, due_at, outcome_kind, inputs, outcome, work)
                 SELECT (n + 1) << 21, unhex(format('%032x', n)),
                     format('https://issuer.example|subject-%d|client', n % {OWNERS}), 'echo', 1, {at}, {at},
                     {at} + 86400000, 604800000, 90000000, 1000, 1, 1, 5, {kind}
                 FROM number;
                 INSERT INTO event SELECT (n + 1) << 21, 1, {at}, 1, NULL, 1, 'created' FROM number;
                 INSERT INTO event
                 SELECT locator, 2, {at}, 2, 1, status, 'made' FROM number JOIN task ON locator = (n + 1) << 21
                 WHERE status <> 1;
                 DROP TABLE number;
                 COMMIT;"
            ))
            .expect("made");
            (first, done) = (first + some, done + some);
        }
    }
    if sizes.expired > 0 {
        db.execute("UPDATE task SET retention_ms = 0", []).expect("set");
    }
    db.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").expect("checkpoint");
    drop(db);
    let size = std::fs::metadata(&path).expect("there").len() >> 20;
    println!("{name}: {first} tasks, {size} MiB, made in {:.1?}", begun.elapsed());
    path
}

/// How long it takes from the opening of the file until somebody can be served.
fn started(runtime: &Runtime, what: &str, path: &Path) {
    let begun = Instant::now();
    let store = open(path);
    let opened = begun.elapsed();
    let engine = Engine::new(Arc::new(store), NodeSettings::default()).expect("an engine");
    let rescued = runtime.block_on(engine.rescue()).expect("rescued");
    println!(
        "start, {what}: opened after {opened:.1?}, ready after {:.1?}, {rescued} orphans",
        begun.elapsed()
    );
}

fn new_task(number: i64) -> NewTask {
    let at = now();
    NewTask {
        id: id(number),
        owner: owner(number),
        runner: "echo".to_owned(),
        work: Payload::parse(r#"{"name":"echo","arguments":{}}"#.to_owned()).expect("JSON"),
        class: WorkClass::Live,
        max_attempts: 5,
        checkpoint: None,
        node: NodeId::from_number(1),
        key: None,
        lifetime: Lifetime {
            run_deadline: at.after(Duration::from_secs(86_400)),
            idle_limit: None,
            retention: Duration::from_secs(86_400),
            ttl: Duration::from_secs(172_800),
        },
        poll_interval: Duration::from_secs(1),
        status_message: None,
        created_at: at,
    }
}

/// Times each question at both sizes, in turns.
fn questions(runtime: &Runtime, small: &SqliteStore, large: &SqliteStore) {
    let at = now();
    let count = |store: &SqliteStore| {
        let mut last = 0;
        while answered(store.get(id(last * 2 + 1))).is_some() {
            last = last * 2 + 1;
        }
        last.max(1)
    };
    let counts = [count(small), count(large)];
    let mut fresh = 10_000_000;
    println!("{:<28} {:>12} {:>12} {:>7}", "median", "small", "large", "ratio");
    let mut compare = |what: &str, ask: &mut dyn FnMut(&SqliteStore, i64, i64)| {
        let mut taken = [Vec::new(), Vec::new()];
        for turn in 0..2000i64 {
            for (which, store) in [small, large].into_iter().enumerate() {
                fresh += 1;
                let number = turn * 7919 % counts[which];
                let begun = Instant::now();
                ask(store, number, fresh);
                taken[which].push(begun.elapsed());
            }
        }
        let [small, large] = taken.map(|mut taken| {
            taken.sort();
            taken[taken.len() / 2]
        });
        let ratio = large.as_secs_f64() / small.as_secs_f64();
        println!("{what:<28} {small:>12.1?} {large:>12.1?} {ratio:>7.2}");
    };
    compare("get", &mut |store, number, _| drop(black_box(answered(store.get(id(number))).expect("a task"))));
    compare("list, a page of 50", &mut |store, number, _| {
        black_box(answered(store.list(&owner(number), Some(locator(number) - 1), 50)));
    });
    compare("due, nothing", &mut |store, _, _| assert!(answered(store.due(at, 256)).is_empty()));
    compare("ready, nothing", &mut |store, _, _| assert!(answered(store.ready(at, 256)).is_empty()));
    compare("orphans, none", &mut |store, _, _| assert!(answered(store.orphans(256)).is_empty()));
    let body = Payload::parse(r#"{"content":[]}"#.to_owned()).expect("JSON");
    compare("create and finish", &mut |store, _, fresh| {
        runtime.block_on(async {
            let mut new = new_task(fresh);
            new.id = id(fresh);
            let id = store.create(new).await.expect("created").id;
            let outcome = Outcome::Result { body: body.clone(), is_error: false, summary: None };
            store.apply(id, Step::Finish { fence: 1, outcome }, at).await.expect("finished");
        });
    });
}

/// SQLite answers on the spot.
fn answered<T>(stored: Stored<T>) -> T {
    stored.now_or_never().expect("at once").expect("an answer")
}

/// Times creations while upkeep deletes what has expired, and before.
fn expiry(runtime: &Runtime, path: &Path, many: i64) {
    let store = open(path);
    let engine = Engine::new(Arc::new(store.clone()), NodeSettings::default()).expect("an engine");
    let calm =
        runtime.block_on(creations(&store, 20_000_000, Duration::from_secs(3), &AtomicBool::new(false)));
    told("create, nothing expires", calm);
    let over = Arc::new(AtomicBool::new(false));
    let (taken, lasted) = runtime.block_on(async {
        let begun = Instant::now();
        let deleting = {
            let over = Arc::clone(&over);
            tokio::spawn(async move {
                engine.expire_due().await;
                over.store(true, Ordering::SeqCst);
                begun.elapsed()
            })
        };
        let taken = creations(&store, 30_000_000, Duration::from_secs(600), &over).await;
        (taken, deleting.await.expect("deleted"))
    });
    told(&format!("create, while {many} expire in {lasted:.1?}"), taken);
    assert!(answered(store.get(id(0))).is_none(), "deleted");
}

/// One caller creates, one after the other, until it is over.
async fn creations(store: &SqliteStore, first: i64, most: Duration, over: &AtomicBool) -> Vec<Duration> {
    let (mut taken, begun) = (Vec::new(), Instant::now());
    while begun.elapsed() < most && !over.load(Ordering::SeqCst) {
        let number = first + taken.len() as i64;
        let began = Instant::now();
        store.create(new_task(number)).await.expect("created");
        taken.push(began.elapsed());
    }
    taken
}

fn told(what: &str, mut taken: Vec<Duration>) {
    taken.sort();
    let at = |share: f64| taken[((taken.len() - 1) as f64 * share) as usize];
    println!(
        "{what}: {} creations, p50 {:.1?}, p99 {:.1?}, max {:.1?}",
        taken.len(),
        at(0.5),
        at(0.99),
        at(1.0)
    );
}

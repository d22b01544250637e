//! What encryption costs a store: `cargo bench -p taskgate-engine --bench encryption`.
//!
//! The same store with and without it, in turns within one run, so that what else goes on counts for both. Prints the
//! fastest tenth of the rounds, which is what least else was in the way of, and the ratio. Postgres takes part where `TASKGATE_BENCH_POSTGRES` is the URL of a database (`--features postgres`); each run
//! leaves two schemas named `taskgate_bench_…` there.

use std::sync::Arc;
use std::time::{Duration, Instant};

use taskgate_engine::{Key, MemoryStore, SealedStore, SqliteOptions, SqliteStore, Store};
use taskgate_task::{Lifetime, NewTask, NodeId, Outcome, Owner, Payload, Step, TaskId, Timestamp, WorkClass};
use tempfile::TempDir;
use tokio::runtime::Runtime;

const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);
const ROUNDS: usize = 100;

fn main() {
    let runtime = Runtime::new().expect("a runtime");
    for kind in ["memory", "sqlite", "postgres"] {
        let (dir, other) =
            (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
        let (Some(plain), Some(beneath)) = (open(&runtime, kind, &dir), open(&runtime, kind, &other)) else {
            continue;
        };
        let sealed = SealedStore::open(beneath, vec![Key::new(&[7; 32])]);
        let stores: [Arc<dyn Store>; 2] = [plain, Arc::new(runtime.block_on(sealed).expect("it opens"))];
        for (length, cycles) in [(100, 50), (64 << 10, 10), (1 << 20, 2)] {
            compare(&runtime, kind, &stores, length, cycles);
        }
    }
}

fn open(runtime: &Runtime, kind: &str, dir: &TempDir) -> Option<Arc<dyn Store>> {
    let _ = runtime;
    match kind {
        "memory" => Some(Arc::new(MemoryStore::new())),
        "sqlite" => {
            let options = SqliteOptions::new(dir.path().join("tasks.db"));
            Some(Arc::new(SqliteStore::open(options).expect("the store opens")))
        }
        #[cfg(feature = "postgres")]
        "postgres" => {
            let mut options =
                taskgate_engine::PostgresOptions::new(std::env::var("TASKGATE_BENCH_POSTGRES").ok()?);
            let name = dir.path().file_name().expect("a name").to_string_lossy().to_lowercase();
            options.schema =
                format!("taskgate_bench_{}", name.replace(|c: char| !c.is_ascii_alphanumeric(), ""));
            let connecting = taskgate_engine::PostgresStore::connect(options);
            Some(Arc::new(runtime.block_on(connecting).expect("the store opens")))
        }
        _ => None,
    }
}

/// Arguments and result are as long as that.
fn compare(runtime: &Runtime, kind: &str, stores: &[Arc<dyn Store>; 2], length: usize, cycles: u64) {
    let text = Payload::from_value(&"x".repeat(length)).expect("JSON");
    let (mut taken, mut read) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    let mut number = length as u64 * 1_000_000;
    for round in 0..ROUNDS {
        // Each of the two is first as often as the other.
        for which in [round % 2, (round + 1) % 2] {
            let store = &stores[which];
            let first = number;
            number += cycles;
            let begun = Instant::now();
            for number in first..number {
                runtime.block_on(cycle(&**store, number, &text));
            }
            taken[which].push(begun.elapsed() / cycles as u32);
            let begun = Instant::now();
            for number in first..number {
                runtime.block_on(store.get(id(number))).expect("an answer").expect("a task");
            }
            read[which].push(begun.elapsed() / cycles as u32);
        }
    }
    for (what, times) in [("create and finish", taken), ("get", read)] {
        let [plain, sealed] = times.map(|mut times| {
            times.sort();
            times[times.len() / 10]
        });
        let ratio = sealed.as_secs_f64() / plain.as_secs_f64();
        println!(
            "{kind}, {length} bytes, {what}: {plain:.1?} plain, {sealed:.1?} encrypted, ratio {ratio:.2}"
        );
    }
}

async fn cycle(store: &dyn Store, number: u64, text: &Payload) {
    let new = NewTask {
        id: id(number),
        owner: Owner::local(),
        runner: "echo".to_owned(),
        work: text.clone(),
        class: WorkClass::Live,
        max_attempts: 5,
        node: NodeId::from_number(1),
        key: None,
        lifetime: Lifetime {
            run_deadline: NOW.after(Duration::from_secs(3600)),
            idle_limit: None,
            retention: Duration::from_secs(3600),
            ttl: Duration::from_secs(7200),
        },
        poll_interval: Duration::from_secs(1),
        status_message: None,
        checkpoint: None,
        created_at: NOW,
    };
    let id = store.create(new).await.expect("created").id;
    let outcome = Outcome::Result { body: text.clone(), is_error: false, summary: None };
    store.apply(id, Step::Finish { fence: 1, outcome }, NOW).await.expect("finished");
}

fn id(number: u64) -> TaskId {
    let mut entropy = [0x5a; 19];
    entropy[11..].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    TaskId::from_entropy(NOW.after(Duration::from_millis(number)), entropy)
}

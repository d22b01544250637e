//! How fast the stores on disk are: `cargo bench -p taskgate-engine --features postgres --bench store`.
//!
//! Postgres takes part where `TASKGATE_BENCH_POSTGRES` is the URL of a database to use; `proof/peers/postgres` starts one
//! and says its URL. Each run leaves schemas named `taskgate_bench_…` there.
//!
//! Also prints how much memory the process needs per stored task, which no benchmark library measures.

use std::fs;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use futures_util::future::join_all;
use taskgate_engine::{SqliteOptions, SqliteStore, Store};
use taskgate_task::{Lifetime, NewTask, NodeId, Outcome, Owner, Payload, Step, TaskId, Timestamp, WorkClass};
use tempfile::TempDir;
use tokio::runtime::Runtime;

const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);
const CALLERS: usize = 16;
const OWNERS: u64 = 10;

/// A kind of store.
#[derive(Clone, Copy)]
enum Kind {
    Sqlite,
    #[cfg(feature = "postgres")]
    Postgres,
}

/// A store, and where it lies.
struct Opened {
    store: Arc<dyn Store>,
    _dir: TempDir,
}

impl Kind {
    /// Those that can be had here.
    fn all() -> Vec<Kind> {
        #[cfg(feature = "postgres")]
        if std::env::var_os("TASKGATE_BENCH_POSTGRES").is_some() {
            return vec![Kind::Sqlite, Kind::Postgres];
        }
        vec![Kind::Sqlite]
    }

    fn name(self) -> &'static str {
        match self {
            Kind::Sqlite => "sqlite",
            #[cfg(feature = "postgres")]
            Kind::Postgres => "postgres",
        }
    }

    /// An empty one.
    fn open(self) -> Opened {
        let dir = tempfile::tempdir().expect("a directory");
        let store: Arc<dyn Store> = match self {
            Kind::Sqlite => Arc::new(
                SqliteStore::open(SqliteOptions::new(dir.path().join("tasks.db"))).expect("the store opens"),
            ),
            #[cfg(feature = "postgres")]
            Kind::Postgres => {
                let mut options = taskgate_engine::PostgresOptions::new(
                    std::env::var("TASKGATE_BENCH_POSTGRES").expect("a URL"),
                );
                let name = dir.path().file_name().expect("a name").to_string_lossy().to_lowercase();
                options.schema = format!(
                    "taskgate_bench_{}",
                    name.trim_matches('.').replace(|c: char| !c.is_ascii_alphanumeric(), "")
                );
                let runtime = Runtime::new().expect("a runtime");
                Arc::new(
                    runtime
                        .block_on(taskgate_engine::PostgresStore::connect(options))
                        .expect("the store opens"),
                )
            }
        };
        Opened { store, _dir: dir }
    }
}

fn id(number: u64) -> TaskId {
    // Spread over milliseconds as in life, with secrets that differ.
    let mut entropy = [0x5a; 19];
    entropy[11..].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    TaskId::from_entropy(NOW.after(Duration::from_millis(number)), entropy)
}

fn new_task(number: u64) -> NewTask {
    let work = r#"{"name":"echo","arguments":{"text":"the quick brown fox jumps over the lazy dog"}}"#;
    NewTask {
        id: id(number),
        owner: Owner::named(&format!("https://issuer.example|subject-{}|client", number % OWNERS)),
        runner: "echo".to_owned(),
        work: Payload::parse(work.to_owned()).expect("JSON"),
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
    }
}

fn finish() -> Step {
    let body = r#"{"content":[{"type":"text","text":"the quick brown fox jumps over the lazy dog"}]}"#;
    let body = Payload::parse(body.to_owned()).expect("JSON");
    Step::Finish { fence: 1, outcome: Outcome::Result { body, is_error: false, summary: None } }
}

async fn pair(store: &dyn Store, number: u64) {
    let task = store.create(new_task(number)).await.expect("created");
    store.apply(task.id, finish(), NOW).await.expect("finished");
}

fn fill(runtime: &Runtime, store: &dyn Store, numbers: std::ops::Range<u64>) {
    let numbers: Vec<u64> = numbers.collect();
    for chunk in numbers.chunks(512) {
        runtime.block_on(join_all(chunk.iter().map(|number| pair(store, *number))));
    }
}

/// The process's resident memory in bytes.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("0 kB");
    line.trim().trim_end_matches(" kB").parse().unwrap_or(0) * 1024
}

fn store(criterion: &mut Criterion) {
    let runtime = Runtime::new().expect("a runtime");
    for kind in Kind::all() {
        for tasks in [1_000, 100_000] {
            let opened = kind.open();
            let before = resident();
            fill(&runtime, &*opened.store, 0..tasks);
            let grown = resident().saturating_sub(before);
            println!("{}, {tasks} tasks: {grown} bytes of memory, {} per task", kind.name(), grown / tasks);
            let id = BenchmarkId::new(kind.name(), tasks);
            get(criterion, &runtime, &*opened.store, id.clone(), tasks);
            list(criterion, &runtime, &*opened.store, id);
        }
        create_and_finish(criterion, &runtime, kind);
        latency(&runtime, kind);
        progress(&runtime, kind);
    }
}

fn get(criterion: &mut Criterion, runtime: &Runtime, store: &dyn Store, id: BenchmarkId, tasks: u64) {
    criterion.benchmark_group("get").bench_function(id, |bencher| {
        let mut number = 0;
        bencher.iter(|| {
            number = (number + 7_919) % tasks;
            let got = runtime.block_on(store.get(self::id(number)));
            black_box(got.expect("an answer").expect("a task"))
        });
    });
}

fn list(criterion: &mut Criterion, runtime: &Runtime, store: &dyn Store, id: BenchmarkId) {
    let owner = new_task(3).owner;
    criterion.benchmark_group("list page of 50").bench_function(id, |bencher| {
        let mut after = None;
        bencher.iter(|| {
            let page = runtime.block_on(store.list(&owner, after, 50)).expect("a page");
            after = page.next;
            black_box(page)
        });
    });
}

fn create_and_finish(criterion: &mut Criterion, runtime: &Runtime, kind: Kind) {
    let Opened { store, _dir } = kind.open();
    let mut next = 0;
    let mut group = criterion.benchmark_group("create and finish");
    group.throughput(Throughput::Elements(1));
    group.bench_function(BenchmarkId::new(kind.name(), format!("{CALLERS} callers")), |bencher| {
        bencher.iter_custom(|pairs| {
            let first = next;
            next += pairs;
            let begun = Instant::now();
            runtime.block_on(join_all((0..CALLERS as u64).map(|caller| {
                let store = Arc::clone(&store);
                runtime.spawn(async move {
                    for number in (first + caller..first + pairs).step_by(CALLERS) {
                        pair(&*store, number).await;
                    }
                })
            })));
            begun.elapsed()
        });
    });
}

/// Prints how long single writes take under the same load: the slowest tell whether checkpoints get in the way.
fn latency(runtime: &Runtime, kind: Kind) {
    const PAIRS: u64 = 100_000;
    let Opened { store, _dir } = kind.open();
    let callers = (0..CALLERS as u64).map(|caller| {
        let store = Arc::clone(&store);
        runtime.spawn(async move {
            let mut taken = Vec::new();
            for number in (caller..PAIRS).step_by(CALLERS) {
                let begun = Instant::now();
                let task = store.create(new_task(number)).await.expect("created");
                taken.push(begun.elapsed());
                store.apply(task.id, finish(), NOW).await.expect("finished");
            }
            taken
        })
    });
    let callers: Vec<_> = callers.collect();
    let taken = runtime.block_on(join_all(callers)).into_iter();
    let mut taken: Vec<Duration> = taken.flat_map(|taken| taken.expect("a caller")).collect();
    taken.sort();
    let at = |share: f64| taken[((taken.len() - 1) as f64 * share) as usize];
    println!(
        "{}, create: p50 {:?}, p99 {:?}, p99.9 {:?}, max {:?}",
        kind.name(),
        at(0.5),
        at(0.99),
        at(0.999),
        at(1.0)
    );
}

/// Prints how many lines of progress a second one task can write, by how much its caller has sent with the call.
fn progress(runtime: &Runtime, kind: Kind) {
    for arguments in [100, 8 << 20] {
        let opened = kind.open();
        let store = &opened.store;
        let work = Payload::from_value(&"x".repeat(arguments)).expect("JSON");
        let task = runtime.block_on(store.create(NewTask { work, ..new_task(0) })).expect("created");
        let begun = Instant::now();
        let mut lines = 0;
        while begun.elapsed() < Duration::from_secs(2) {
            lines += 1;
            // Of a length that changes, as in life: a row of the same length would be overwritten where it differs.
            let message = format!("{} of many", "9".repeat(lines % 7));
            runtime.block_on(store.apply(task.id, Step::Report { fence: 1, message }, NOW)).expect("told");
        }
        let rate = lines as f64 / begun.elapsed().as_secs_f64();
        println!("{}, progress, {arguments} bytes of arguments: {rate:.0} lines/s", kind.name());
    }
}

criterion_group!(benches, store);
criterion_main!(benches);

//! Random lives: whatever is done to both, a store on disk holds what memory holds.

use std::time::Duration;

use proptest::prelude::*;
use taskgate_task::{
    Failure, IdempotencyKey, Loss, NewTask, NodeId, Order, Outcome, Payload, Question, Step, TaskId,
    Timestamp, WorkClass,
};

use super::sample;
use crate::{MemoryStore, SqliteOptions, SqliteStore, Store};

#[derive(Debug, Clone)]
enum Operation {
    Create(usize, WorkClass, Option<u8>),
    Apply(usize, Step, u64),
}

const TASKS: usize = 3;

fn payload() -> impl Strategy<Value = Payload> {
    prop_oneof![
        Just(Payload::null()),
        "\\PC{0,12}".prop_map(|text| Payload::from_value(&text).unwrap()),
        (0usize..40_000).prop_map(|length| Payload::from_value(&"x".repeat(length)).unwrap()),
    ]
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof![Just("a"), Just("b"), Just("a~2"), Just("")].prop_map(str::to_owned)
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        (payload(), any::<bool>(), proptest::option::of("\\PC{0,8}"))
            .prop_map(|(body, is_error, summary)| Outcome::Result { body, is_error, summary }),
        (payload(), "\\PC{0,8}").prop_map(|(body, summary)| Outcome::Error { body, summary }),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let question = (key(), proptest::option::of(payload())).prop_map(|(key, params)| Question {
        key,
        method: "elicitation/create".to_owned(),
        params,
    });
    let questions = proptest::collection::vec(question, 0..3);
    let failure = prop_oneof![Just(Failure::Interrupted), Just(Failure::IdleLimit), Just(Failure::NoRunner)];
    let fence = || 1u64..5;
    prop_oneof![
        4 => (1i64..3).prop_map(|node| Step::Begin { node: NodeId::from_number(node) }),
        3 => (fence(), any::<u8>())
            .prop_map(|(fence, jitter)| Step::Lose {
            fence,
            message: "lost".to_owned(),
            loss: if jitter == 0 { Loss::ShutDown } else { Loss::Died { jitter } },
        }),
        2 => (fence(), payload()).prop_map(|(fence, state)| Step::Checkpoint { fence, state }),
        1 => (fence(), 0u64..9000).prop_map(|(fence, pause)| Step::PutBack {
            fence,
            pause: Duration::from_millis(pause),
            message: "elsewhere".to_owned(),
        }),
        1 => fence().prop_map(|fence| Step::Stopped { fence }),
        4 => (fence(), "\\PC{0,8}").prop_map(|(fence, message)| Step::Report { fence, message }),
        4 => (fence(), questions, proptest::option::of(payload()))
            .prop_map(|(fence, questions, resume)| Step::Ask { fence, questions, resume }),
        4 => proptest::collection::vec((key(), payload()), 0..3).prop_map(|answers| Step::Answer { answers }),
        2 => (fence(), proptest::collection::vec(key(), 0..3))
            .prop_map(|(fence, keys)| Step::Withdraw { fence, keys }),
        1 => (fence(), outcome()).prop_map(|(fence, outcome)| Step::Finish { fence, outcome }),
        1 => Just(Step::Cancel),
        1 => (fence(), failure, "\\PC{0,8}")
            .prop_map(|(fence, failure, message)| Step::Fail { fence, failure, message }),
        1 => proptest::sample::select(vec![
            Order::Cancel,
            Order::Fail { message: "x".to_owned() },
            Order::Requeue,
            Order::Prune,
        ])
        .prop_map(Step::Order),
        4 => Just(Step::Tick),
    ]
}

fn operation() -> impl Strategy<Value = Operation> {
    let class = proptest::sample::select(&WorkClass::ALL[..]);
    prop_oneof![
        1 => (0..TASKS, class, proptest::option::of(0u8..2))
            .prop_map(|(task, class, key)| Operation::Create(task, class, key)),
        8 => (0..TASKS, step(), 0u64..20_000).prop_map(|(task, step, pause)| Operation::Apply(task, step, pause)),
    ]
}

async fn perform(store: &impl Store, ids: &[TaskId], operation: Operation, now: Timestamp) -> String {
    match operation {
        Operation::Create(task, class, key) => {
            let key =
                key.map(|key| IdempotencyKey { tool: "t".to_owned(), key: key.to_string(), digest: [7; 32] });
            let new = NewTask { id: ids[task], class, key, created_at: now, ..sample::new_task() };
            format!("{:?}", store.create(new).await)
        }
        Operation::Apply(task, step, _) => format!("{:?}", store.apply(ids[task], step, now).await),
    }
}

/// All that can be asked of it.
async fn everything(store: &impl Store, ids: &[TaskId], now: Timestamp) -> String {
    let mut all = Vec::new();
    for id in ids {
        all.push(format!("{:#?} {:#?}", store.get(*id).await, store.work(*id).await));
        all.push(format!("{:#?}", store.events(*id).await));
    }
    all.push(format!("{:#?}", store.list(&taskgate_task::Owner::local(), None, 2).await));
    all.push(format!("{:#?} {:#?}", store.due(now, 2).await, store.ready(now, 2).await));
    let mut orphans = store.orphans(10).await.unwrap();
    orphans.sort_by_key(|task| task.id);
    all.push(format!("{orphans:#?}"));
    all.concat()
}

/// Does everything to both, and asks both for everything after each operation, and once more after opening it again.
fn holds_what_memory_holds<S: Store>(
    open: impl Fn() -> S,
    operations: Vec<Operation>,
) -> Result<(), TestCaseError> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let memory = MemoryStore::new();
    let ids: Vec<TaskId> = (0..TASKS).map(|_| sample::id()).collect();
    let mut now = sample::NOW;
    {
        let store = open();
        for operation in operations {
            if let Operation::Apply(_, _, pause) = &operation {
                now = now.after(Duration::from_millis(*pause));
            }
            let expected = runtime.block_on(perform(&memory, &ids, operation.clone(), now));
            let got = runtime.block_on(perform(&store, &ids, operation, now));
            prop_assert_eq!(got, expected);
            let expected = runtime.block_on(everything(&memory, &ids, now));
            prop_assert_eq!(runtime.block_on(everything(&store, &ids, now)), expected);
        }
    }
    let expected = runtime.block_on(everything(&memory, &ids, now));
    prop_assert_eq!(runtime.block_on(everything(&open(), &ids, now)), expected);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn sqlite_holds_what_memory_holds(operations in proptest::collection::vec(operation(), 1..40)) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tasks.db");
        holds_what_memory_holds(|| SqliteStore::open(SqliteOptions::new(&path)).unwrap(), operations)?;
    }
}

#[cfg(feature = "postgres")]
proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn postgres_holds_what_memory_holds(operations in proptest::collection::vec(operation(), 1..40)) {
        let options = crate::store::postgres::tests::options();
        holds_what_memory_holds(|| crate::store::postgres::tests::open(&options), operations)?;
    }
}

//! Tasks and steps to make claims with.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use taskgate_task::{
    Change, IdempotencyKey, Lifetime, Loss, NewTask, NodeId, Outcome, Owner, Payload, Question, Step, Task,
    TaskId, Timestamp, WorkClass,
};

use crate::{Store, StoreError};

/// When the samples begin.
pub(super) const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

/// When their run limit is over.
pub(super) const RUN_DEADLINE: Timestamp = Timestamp::from_millis(1_800_000_000_000 + 60_000);

/// The node that carries the samples.
pub(super) const NODE: NodeId = NodeId::from_number(7);

/// Another one.
pub(super) const OTHER: NodeId = NodeId::from_number(8);

/// A node takes the work up.
pub(super) fn begin() -> Step {
    Step::Begin { node: OTHER }
}

/// The attempt is lost, without any spread.
pub(super) fn lose(fence: u64) -> Step {
    Step::Lose { fence, message: "its process ended".to_owned(), loss: Loss::Died { jitter: 0 } }
}

/// `millis` after the beginning.
pub(super) fn later(millis: u64) -> Timestamp {
    NOW.after(Duration::from_millis(millis))
}

/// An id no other sample has; later ones have larger locators.
pub(super) fn id() -> TaskId {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let mut entropy = [0x5a; 19];
    // Locators end in 21 random bits, so the rest of the count stands in for time.
    entropy[1..3].copy_from_slice(&(count as u16).to_be_bytes());
    entropy[0] = 0;
    entropy[3..7].copy_from_slice(&count.to_be_bytes());
    TaskId::from_entropy(later(u64::from(count >> 16)), entropy)
}

/// The same locator with another secret.
pub(super) fn forged(id: TaskId) -> TaskId {
    let mut secret = id.secret();
    secret[15] ^= 1;
    TaskId::from_parts(id.locator(), secret)
}

/// A plain task.
pub(super) fn new_task() -> NewTask {
    NewTask {
        id: id(),
        owner: Owner::local(),
        runner: "echo".to_owned(),
        work: json(r#"{"name":"echo","arguments":{}}"#),
        class: WorkClass::Live,
        max_attempts: 3,
        node: NODE,
        key: None,
        lifetime: Lifetime {
            run_deadline: RUN_DEADLINE,
            idle_limit: None,
            retention: Duration::from_secs(10),
            ttl: Duration::from_secs(70),
        },
        poll_interval: Duration::from_secs(1),
        status_message: None,
        checkpoint: None,
        created_at: NOW,
    }
}

/// A task in which no field has its usual value.
pub(super) fn unusual_task() -> NewTask {
    NewTask {
        owner: Owner::named("https://issuer.example|Δ subject 🦀|client'\"\\\0"),
        runner: "läufer/日本".to_owned(),
        work: json("{ \"z\":1.0e+2,\"a\" : [0.10, 18446744073709551616, \"\\u00e9é\"] }"),
        class: WorkClass::Repeatable,
        max_attempts: u32::MAX,
        node: NodeId::from_number(i64::MAX),
        key: Some(IdempotencyKey {
            tool: "läuft".to_owned(),
            key: "\u{0}'🔑".to_owned(),
            digest: [0xff; 32],
        }),
        lifetime: Lifetime {
            run_deadline: Timestamp::NEVER,
            idle_limit: Some(Duration::from_millis(1)),
            retention: Duration::from_millis(7),
            ttl: Duration::from_millis(11),
        },
        poll_interval: Duration::ZERO,
        status_message: Some("warte\n…".to_owned()),
        checkpoint: Some(json("{ \"n\" :1.0e+2 }")),
        created_at: Timestamp::from_millis(-1),
        ..new_task()
    }
}

pub(super) fn json(text: &str) -> Payload {
    Payload::parse(text.to_owned()).unwrap()
}

pub(super) fn question(key: &str) -> Question {
    let params = Some(json(r#"{"message":"who?"}"#));
    Question { key: key.to_owned(), method: "elicitation/create".to_owned(), params }
}

pub(super) fn answer(key: &str) -> Step {
    Step::Answer { answers: vec![(key.to_owned(), json(r#"{"action":"accept"}"#))] }
}

pub(super) fn report(message: &str) -> Step {
    Step::Report { fence: 1, message: message.to_owned() }
}

pub(super) fn finish() -> Step {
    let body = json(r#"{"content":[{"type":"text","text":"done"}]}"#);
    Step::Finish { fence: 1, outcome: Outcome::Result { body, is_error: false, summary: None } }
}

/// Keeps the task, which must succeed.
pub(super) async fn create(store: &impl Store, new: NewTask) -> Task {
    store.create(new).await.unwrap()
}

/// Makes the step and claims that the store now holds what it led to.
pub(super) async fn apply(store: &impl Store, id: TaskId, step: Step, now: Timestamp) -> Change {
    let change = store.apply(id, step, now).await.unwrap();
    assert_eq!(store.get(id).await.unwrap().as_ref(), Some(&change.task));
    change
}

/// Claims that the step is refused with this message.
pub(super) async fn refused(store: &impl Store, id: TaskId, step: Step, now: Timestamp) {
    let refusal = store.apply(id, step.clone(), now).await;
    assert!(matches!(refusal, Err(StoreError::Refused(_))), "{step:?}: {refusal:?}");
}

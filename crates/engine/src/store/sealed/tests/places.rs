//! A value opens at its own place only, and what does not open is in nobody else's way.

use taskgate_task::{Order, Status};

use super::*;

/// Changes a task in the store beneath, behind everybody's back.
async fn change(beneath: &MemoryStore, id: TaskId, change: impl FnOnce(&mut KeptTask)) {
    let mut kept = tasks(everything(beneath).await).into_iter().find(|kept| kept.task.id == id).unwrap();
    change(&mut kept);
    assert_eq!(beneath.rewrite(vec![kept]).await.unwrap(), 1);
}

/// Turns one character of the encrypted text.
fn tampered(payload: &Payload) -> Payload {
    let text = payload.as_str();
    let at = text.len() / 2;
    let other = if &text[at..=at] == "A" { "B" } else { "A" };
    json(&format!("{}{other}{}", &text[..at], &text[at + 1..]))
}

fn undecipherable<T: std::fmt::Debug>(read: Result<T, StoreError>, of: TaskId, at: &str) {
    match read {
        Err(StoreError::Undecipherable { id, place, .. }) => assert_eq!((id, place), (of, at)),
        other => panic!("{at}: {other:?}"),
    }
}

async fn two() -> (MemoryStore, SealedStore, TaskId, TaskId) {
    let beneath = MemoryStore::new();
    let store = open(Arc::new(beneath.clone()), &[1]).await.unwrap();
    let (one, two) = (new_task(1), new_task(2));
    let ids = (one.id, two.id);
    store.create(one).await.unwrap();
    store.create(two).await.unwrap();
    (beneath, store, ids.0, ids.1)
}

/// Told by its task and its place; the other tasks go on, and lists show both.
#[tokio::test]
async fn a_value_that_was_changed_does_not_open() {
    let (beneath, store, id, other) = two().await;
    change(&beneath, id, |kept| kept.task.checkpoint = kept.task.checkpoint.as_ref().map(tampered)).await;
    undecipherable(store.get(id).await, id, "checkpoint");
    assert!(store.work(id).await.unwrap().is_some());
    change(&beneath, id, |kept| kept.work = kept.work.as_ref().map(tampered)).await;
    undecipherable(store.work(id).await, id, "work");
    undecipherable(store.dump(None, 10).await, id, "work");
    assert_eq!(store.get(other).await.unwrap().unwrap().checkpoint, Some(said("checkpoint")));
    let found = store.check().await.unwrap();
    assert!(matches!(&found[..], [line] if line.contains("the work of TaskId(")), "{found:?}");

    change(&beneath, id, |kept| {
        kept.task.status_message = Some("tgs1:0123456789abcdef:".to_owned() + &"A".repeat(80))
    })
    .await;
    let listed = store.list(&Owner::local(), None, 10).await.unwrap().tasks;
    let messages: Vec<_> = listed.iter().map(|task| task.status_message.clone().unwrap()).collect();
    assert_eq!(messages, ["(cannot be decrypted)".to_owned(), format!("{SENTINEL} first message")]);
    assert_eq!(store.all(None, 10).await.unwrap().tasks.len(), 2);
}

/// Whoever runs the store can still end such a task and be rid of it.
#[tokio::test]
async fn a_task_with_a_changed_value_can_be_ended() {
    let (beneath, store, id, _) = two().await;
    change(&beneath, id, |kept| kept.task.checkpoint = kept.task.checkpoint.as_ref().map(tampered)).await;
    let message = "The store was damaged.".to_owned();
    let ended =
        store.apply(id, Step::Order(Order::Fail { message: message.clone() }), NOW).await.unwrap().task;
    assert_eq!((ended.status, ended.status_message), (Status::Failed, Some(message)));
    // It is to be stopped where it goes on, which nobody knows any more.
    undecipherable(store.get(id).await, id, "checkpoint");
    let gone = store.apply(id, Step::Stopped { fence: ended.fence }, NOW).await.unwrap().task;
    let gone = store.apply(id, Step::Tick, gone.due_at()).await.unwrap();
    assert!(gone.delete);
    assert_eq!(store.get(id).await.unwrap(), None);
}

/// An attempt does not begin with something else than what was put down for it.
#[tokio::test]
async fn no_attempt_begins_from_a_changed_value() {
    let (beneath, store, id, _) = two().await;
    let lost = Step::Lose { fence: 1, message: "gone".to_owned(), loss: taskgate_task::Loss::ShutDown };
    store.apply(id, lost, NOW).await.unwrap();
    change(&beneath, id, |kept| kept.task.checkpoint = kept.task.checkpoint.as_ref().map(tampered)).await;
    let begun = store.apply(id, Step::Begin { node: NodeId::from_number(8) }, NOW).await;
    undecipherable(begun, id, "checkpoint");
}

/// Values of another task, of another place and of another question do not open.
#[tokio::test]
async fn values_cannot_change_places() {
    let (beneath, store, one, other) = two().await;
    let [first, second] = [one, other].map(|id| {
        let beneath = beneath.clone();
        async move { tasks(everything(&beneath).await).into_iter().find(|kept| kept.task.id == id).unwrap() }
    });
    let (first, second) = (first.await, second.await);
    // A row with another one's values.
    change(&beneath, one, |kept| {
        kept.work = second.work.clone();
        kept.task.checkpoint = second.task.checkpoint.clone();
    })
    .await;
    undecipherable(store.work(one).await, one, "work");
    undecipherable(store.get(one).await, one, "checkpoint");
    // A value at another place of its own task.
    change(&beneath, one, |kept| kept.task.checkpoint = first.work.clone()).await;
    undecipherable(store.get(one).await, one, "checkpoint");
    change(&beneath, one, |kept| kept.task.checkpoint = first.task.checkpoint.clone()).await;
    assert_eq!(store.get(one).await.unwrap().unwrap().checkpoint, Some(said("checkpoint")));

    // An answer to another question.
    store.apply(other, ask(), NOW).await.unwrap();
    store.apply(other, answer("q"), NOW).await.unwrap();
    store.apply(other, answer("r"), NOW).await.unwrap();
    let answered = tasks(everything(&beneath).await).into_iter().find(|kept| kept.task.id == other).unwrap();
    let of_q = answered.task.inputs.all()[0].answer.clone();
    change(&beneath, other, |kept| {
        let _ = kept.task.inputs.visit_values(|place, value| {
            if let (taskgate_task::Place::Answer("r"), taskgate_task::Value::Payload(payload)) =
                (place, value)
            {
                *payload = of_q.clone().unwrap();
            }
            Ok::<(), ()>(())
        });
    })
    .await;
    undecipherable(store.get(other).await, other, "answer");
}

/// What the work is called again with is what was answered, although the keys it is told are its own.
#[tokio::test]
async fn a_parked_call_gets_its_state_and_its_answers() {
    let (_, store, id, _) = two().await;
    store.apply(id, ask(), NOW).await.unwrap();
    store.apply(id, answer("q"), NOW).await.unwrap();
    store.apply(id, answer("r"), NOW).await.unwrap();
    store.apply(id, Step::Begin { node: NodeId::from_number(7) }, NOW).await.unwrap();
    // The names are taken, so the task's keys are others.
    let again = match ask() {
        Step::Ask { questions, resume, .. } => Step::Ask { fence: 2, questions, resume },
        other => panic!("{other:?}"),
    };
    let asked = store.apply(id, again, NOW).await.unwrap().asked;
    assert_eq!(asked, ["q~2", "r~2"]);
    for (key, text) in [("q~2", "one"), ("r~2", "two")] {
        let step = Step::Answer { answers: vec![(key.to_owned(), said(text))] };
        let answered = store.apply(id, step, NOW).await.unwrap().answered;
        assert_eq!(answered, [(key.to_owned(), said(text))]);
    }
    let round =
        store.apply(id, Step::Begin { node: NodeId::from_number(7) }, NOW).await.unwrap().round.unwrap();
    assert_eq!(round.state, said("resume"));
    assert_eq!(round.answers, [("q".to_owned(), said("one")), ("r".to_owned(), said("two"))]);
}

use std::time::Duration;

use super::*;
use crate::{Lifetime, LifetimePolicy, Loss, NewTask, NodeId, Owner, Payload, Question, Step, TaskId};

const HERE: NodeId = NodeId::from_number(1);
const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);
const LATER: Timestamp = Timestamp::from_millis(1_800_000_001_000);

fn task(class: WorkClass, checkpoint: Option<&str>) -> Task {
    let payload = |text: &str| Payload::parse(text.to_owned()).expect("test JSON");
    Task::create(&NewTask {
        id: TaskId::from_entropy(START, [7; 19]),
        owner: Owner::named("ada"),
        runner: "test".into(),
        work: payload("{}"),
        class,
        max_attempts: 3,
        node: HERE,
        key: None,
        lifetime: Lifetime::grant(&LifetimePolicy::default(), None, START),
        poll_interval: Duration::from_secs(1),
        status_message: None,
        checkpoint: checkpoint.map(payload),
        created_at: START,
    })
}

fn made(task: &Task, step: Step) -> Change {
    task.step(step, LATER).expect("legal")
}

fn ordered(task: &Task, order: Order) -> Result<Change, Refusal> {
    task.step(Step::Order(order), LATER)
}

#[test]
fn an_operator_ends_what_has_not_ended() {
    let fail = Order::Fail { message: "the disk is full".to_owned() };
    for (order, status, why) in [
        (Order::Cancel, Status::Cancelled, "cancelled by an operator"),
        (fail, Status::Failed, "failed by an operator"),
    ] {
        let running = task(WorkClass::Live, None);
        let change = ordered(&running, order.clone()).expect("legal");
        let event = change.event.expect("an event");
        assert_eq!((change.task.status, event.to, event.who), (status, status, Who::Receiver));
        assert_eq!(event.why, why);
        assert_eq!((change.task.ended_at, change.task.carrier), (Some(LATER), Carrier::Nobody));
        // The work has no say any more, and neither has a second order.
        let finish = Step::Report { fence: 1, message: "still here".to_owned() };
        assert!(change.task.step(finish, LATER).is_err());
        assert_eq!(ordered(&change.task, order).err(), Some(Refusal::Terminal(status)));
    }
    let failed =
        ordered(&task(WorkClass::Live, None), Order::Fail { message: "the disk is full".to_owned() });
    let failed = failed.expect("legal").task;
    assert_eq!(failed.status_message.as_deref(), Some("the disk is full"));
    assert_eq!(failed.failure, Some(Failure::Interrupted));
}

#[test]
fn what_is_put_back_is_begun_anew_and_its_old_attempt_has_no_say() {
    let running = task(WorkClass::Repeatable, None);
    let lost =
        made(&running, Step::Lose { fence: 1, message: "gone".to_owned(), loss: Loss::Died { jitter: 0 } });
    for before in [running, lost.task] {
        let back = ordered(&before, Order::Requeue).expect("legal").task;
        assert_eq!((back.status, back.carrier), (Status::Working, Carrier::Ready(LATER)));
        let begun = made(&back, Step::Begin { node: HERE }).task;
        assert_eq!(begun.attempts, 1);
        let late = Step::Report { fence: before.fence, message: "late".to_owned() };
        assert_eq!(begun.step(late, LATER).err(), Some(Refusal::StaleFence));
    }
}

#[test]
fn the_questions_of_an_attempt_that_is_taken_away_are_closed() {
    let question = Question { key: "colour".into(), method: "elicitation/create".into(), params: None };
    let ask = |resume| Step::Ask { fence: 1, questions: vec![question.clone()], resume };
    let asking = made(&task(WorkClass::Resumable, None), ask(None)).task;
    let back = ordered(&asking, Order::Requeue).expect("legal").task;
    assert_eq!((back.status, back.inputs.open().count()), (Status::Working, 0));
    // Nothing runs that could be taken away, and nothing could go on without the answers.
    let parked = made(&task(WorkClass::Resumable, None), ask(Some(Payload::null()))).task;
    assert_eq!(ordered(&parked, Order::Requeue).err(), Some(Refusal::NotStartable));
}

#[test]
fn what_must_not_be_done_twice_is_not_put_back() {
    assert_eq!(ordered(&task(WorkClass::Live, None), Order::Requeue).err(), Some(Refusal::NotRepeatable));
}

#[test]
fn only_what_has_ended_and_is_stopped_can_go_early() {
    let running = task(WorkClass::External, Some("{\"job\":1}"));
    assert_eq!(ordered(&running, Order::Prune).err(), Some(Refusal::NotDue));
    let ended = ordered(&running, Order::Cancel).expect("legal").task;
    assert_eq!(ordered(&ended, Order::Prune).err(), Some(Refusal::NotDue), "its job still runs");
    let stopped = made(&ended, Step::Stopped { fence: 1 }).task;
    assert!(ordered(&stopped, Order::Prune).expect("legal").delete);
}

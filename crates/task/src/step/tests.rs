use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::{Lifetime, LifetimePolicy, NewTask, Owner, TaskId};

const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);

fn payload(text: &str) -> Payload {
    Payload::parse(text.to_owned()).expect("test JSON")
}

fn task(class: WorkClass) -> Task {
    let policy = LifetimePolicy { run_limit: Duration::from_secs(60), ..LifetimePolicy::default() };
    Task::create(&NewTask {
        id: TaskId::from_entropy(START, [7; 19]),
        owner: Owner::local(),
        runner: "test".into(),
        work: payload("{}"),
        class,
        lifetime: Lifetime::grant(&policy, Some(Duration::from_secs(2)), START),
        poll_interval: Duration::from_secs(1),
        status_message: None,
        created_at: START,
    })
}

fn question(key: &str) -> Question {
    Question { key: key.into(), method: "elicitation/create".into(), params: None }
}

fn ask(keys: &[&str], resume: Option<&str>) -> Step {
    Step::Ask {
        fence: 1,
        questions: keys.iter().map(|key| question(key)).collect(),
        resume: resume.map(payload),
    }
}

fn answer(keys: &[&str]) -> Step {
    Step::Answer { answers: keys.iter().map(|key| ((*key).to_owned(), payload("{}"))).collect() }
}

fn finish(fence: u64) -> Step {
    Step::Finish { fence, outcome: Outcome::Result { body: payload("{}"), is_error: false, summary: None } }
}

#[test]
fn cancel_after_completion_is_refused() {
    let done = task(WorkClass::Live).step(finish(1), START).expect("finish").task;
    assert_eq!(done.step(Step::Cancel, START).err(), Some(Refusal::Terminal(Status::Completed)));
}

#[test]
fn completion_after_cancel_is_refused() {
    let cancelled = task(WorkClass::Live).step(Step::Cancel, START).expect("cancel").task;
    assert_eq!(cancelled.step(finish(1), START).err(), Some(Refusal::Terminal(Status::Cancelled)));
}

#[test]
fn a_stale_attempt_cannot_write() {
    let again = task(WorkClass::Repeatable).step(Step::Begin, START).expect("begin").task;
    assert_eq!((again.fence, again.attempts), (2, 2));
    assert_eq!(again.step(finish(1), START).err(), Some(Refusal::StaleFence));
    assert!(again.step(finish(2), START).is_ok());
}

#[test]
fn live_work_is_never_started_twice() {
    assert_eq!(task(WorkClass::Live).step(Step::Begin, START).err(), Some(Refusal::NotStartable));
}

/// Case 8: a wrong key leaves everything as it is, a partial answer leaves the rest open.
#[test]
fn answers_move_the_task_only_when_their_keys_are_open() {
    let asked = task(WorkClass::Live).step(ask(&["a", "b"], None), START).expect("ask").task;
    assert_eq!(asked.status, Status::InputRequired);
    let wrong = asked.step(answer(&["c"]), START).expect("ignored");
    assert_eq!((wrong.ignored, wrong.write, &wrong.task), (1, false, &asked));
    let partial = asked.step(answer(&["a"]), START).expect("partial").task;
    assert_eq!(partial.status, Status::InputRequired);
    assert_eq!(partial.inputs.open().map(|q| q.key.as_str()).collect::<Vec<_>>(), ["b"]);
    let full = partial.step(answer(&["a", "b"]), START).expect("full");
    assert_eq!((full.task.status, full.ignored, full.start), (Status::Working, 1, false));
}

fn withdraw(fence: u64, keys: &[&str]) -> Step {
    Step::Withdraw { fence, keys: keys.iter().map(|key| (*key).to_owned()).collect() }
}

/// Case 8: what the work takes back is open no longer, and with the last open question the task goes back to working.
#[test]
fn a_withdrawn_question_is_open_no_longer() {
    let asked = task(WorkClass::Live).step(ask(&["a", "b"], None), START).expect("ask").task;
    let partial = asked.step(withdraw(1, &["a"]), START).expect("withdraw").task;
    assert_eq!(partial.status, Status::InputRequired);
    assert_eq!(partial.inputs.open().map(|q| q.key.as_str()).collect::<Vec<_>>(), ["b"]);
    let none = partial.step(withdraw(1, &["b", "c"]), START).expect("withdraw");
    assert_eq!((none.task.status, none.start), (Status::Working, false));
    let event = none.event.expect("an event");
    assert_eq!((event.who, event.why.as_str()), (Who::Runner, "1 withdrawn"));
    // The answer comes too late, the key stays used, and a second withdrawal moves nothing.
    let late = none.task.step(answer(&["a"]), START).expect("ignored");
    assert_eq!((late.ignored, late.write), (1, false));
    assert!(!none.task.step(withdraw(1, &["a", "b"]), START).expect("nothing").write);
    assert_eq!(none.task.step(ask(&["a"], None), START).expect("ask").asked, ["a~2"]);
}

/// Only the attempt that asked can take back: not a stale one, and not one that ended its call to wait for answers.
#[test]
fn only_running_work_withdraws() {
    let asked = task(WorkClass::Live).step(ask(&["a"], None), START).expect("ask").task;
    assert_eq!(asked.step(withdraw(2, &["a"]), START).err(), Some(Refusal::StaleFence));
    let parked = task(WorkClass::Live).step(ask(&["a"], Some("1")), START).expect("ask").task;
    assert_eq!(parked.step(withdraw(1, &["a"]), START).err(), Some(Refusal::StaleFence));
}

#[test]
fn keys_are_never_reused() {
    let once = task(WorkClass::Live).step(ask(&["name"], None), START).expect("ask").task;
    let answered = once.step(answer(&["name"]), START).expect("answer").task;
    let twice = answered.step(ask(&["name"], None), START).expect("ask again");
    assert_eq!(twice.asked, ["name~2"]);
}

#[test]
fn a_parked_round_survives_and_starts_a_new_attempt_when_answered() {
    let parked = task(WorkClass::Live).step(ask(&["k"], Some("\"state\"")), START).expect("ask").task;
    assert_eq!(parked.step(Step::Begin, START).err(), Some(Refusal::NotStartable));
    let answered = parked.step(answer(&["k"]), START).expect("answer");
    assert!(answered.start);
    let begun = answered.task.step(Step::Begin, START).expect("begin");
    assert_eq!((begun.task.fence, begun.task.attempts), (2, 1));
    assert_eq!(begun.round.expect("the attempt gets its round").answers.len(), 1);
    // The answers are used up: dying now is dying like any live work.
    assert_eq!(begun.task.step(Step::Begin, START).err(), Some(Refusal::NotStartable));
}

#[test]
fn a_round_without_questions_is_carried_on_at_once() {
    let young = task(WorkClass::Live);
    let first = young.step(ask(&["k"], Some("1")), START).expect("ask").task;
    let first = first.step(answer(&["k"]), START).expect("answer").task;
    let again = first.step(Step::Begin, START).expect("begin").task;
    let empty = Step::Ask { fence: 2, questions: Vec::new(), resume: Some(payload("2")) };
    let asked = again.step(empty, START).expect("ask nothing");
    assert_eq!((asked.task.status, asked.start), (Status::Working, true));
    assert_eq!(asked.event.map(|event| event.to), Some(Status::Working));
    let round = asked.task.step(Step::Begin, START).expect("begin").round.expect("round");
    assert_eq!((round.state, round.answers.len()), (payload("2"), 0));
}

/// Case 2: a running task outlives its ttl, and the ttl told to the requestor grows with it.
#[test]
fn the_ttl_of_a_running_task_grows_and_its_outcome_is_kept_for_the_whole_retention() {
    let young = task(WorkClass::Live);
    let due = START.after(Duration::from_millis(1500));
    assert_eq!(young.due_at(), due);
    let grown = young.step(Step::Tick, due).expect("grows").task;
    assert!(grown.lifetime.ttl > Duration::from_secs(3));
    assert_eq!(grown.updated_at, due);
    let end = START.after(Duration::from_secs(5));
    let done = grown.step(finish(1), end).expect("finish").task;
    assert_eq!(done.lifetime.ttl, Duration::from_secs(7));
    assert_eq!(done.step(Step::Tick, end.after(Duration::from_millis(1999))).err(), Some(Refusal::NotDue));
    assert!(done.step(Step::Tick, end.after(Duration::from_secs(2))).expect("delete").delete);
}

#[test]
fn the_run_limit_fails_the_task_first_and_deletes_it_later() {
    let late = START.after(Duration::from_secs(60));
    let failed = task(WorkClass::Live).step(Step::Tick, late).expect("expire");
    assert_eq!((failed.task.status, failed.delete), (Status::Failed, false));
    assert_eq!(failed.task.failure, Some(Failure::RunLimit));
    assert!(failed.task.status_message.is_some());
}

#[derive(Debug, Clone)]
enum Move {
    Begin,
    Report(u64),
    Ask(u64, Vec<u8>, bool),
    Answer(Vec<u8>),
    Withdraw(u64, Vec<u8>),
    Finish(u64, bool),
    Cancel,
    Fail(u64),
    Tick(u64),
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let keys = || proptest::collection::vec(0u8..4, 0..3);
    let one = prop_oneof![
        Just(Move::Begin),
        (0u64..4).prop_map(Move::Report),
        (0u64..4, keys(), any::<bool>()).prop_map(|(fence, keys, parked)| Move::Ask(fence, keys, parked)),
        keys().prop_map(Move::Answer),
        (0u64..4, keys()).prop_map(|(fence, keys)| Move::Withdraw(fence, keys)),
        (0u64..4, any::<bool>()).prop_map(|(fence, ok)| Move::Finish(fence, ok)),
        Just(Move::Cancel),
        (0u64..4).prop_map(Move::Fail),
        (0u64..90_000).prop_map(Move::Tick),
    ];
    proptest::collection::vec(one, 1..24)
}

proptest! {
    /// Whatever anyone does in whatever order: a terminal status is final, the version counts every write, a stale
    /// fence changes nothing, `input_required` means that a question is open, and keys stay unique.
    #[test]
    fn any_interleaving_keeps_the_invariants(class in prop_oneof![Just(WorkClass::Live), Just(WorkClass::Repeatable)], moves in moves()) {
        let mut now = START;
        let mut task = task(class);
        for step in moves {
            let (step, fence) = match step {
                Move::Begin => (Step::Begin, None),
                Move::Report(f) => (Step::Report { fence: f, message: "m".into() }, Some(f)),
                Move::Ask(f, keys, parked) => {
                    let questions = keys.iter().map(|k| question(&k.to_string())).collect();
                    (Step::Ask { fence: f, questions, resume: parked.then(|| payload("1")) }, Some(f))
                }
                Move::Answer(keys) => (
                    Step::Answer { answers: keys.iter().map(|k| (k.to_string(), payload("{}"))).collect() },
                    None,
                ),
                Move::Withdraw(f, keys) => {
                    let keys = keys.iter().map(ToString::to_string).collect();
                    (Step::Withdraw { fence: f, keys }, Some(f))
                }
                Move::Finish(f, ok) => {
                    let outcome = if ok {
                        Outcome::Result { body: payload("{}"), is_error: false, summary: None }
                    } else {
                        Outcome::Error { body: payload("{}"), summary: "e".into() }
                    };
                    (Step::Finish { fence: f, outcome }, Some(f))
                }
                Move::Cancel => (Step::Cancel, None),
                Move::Fail(f) => (Step::Fail { fence: f, failure: Failure::Interrupted, message: "x".into() }, Some(f)),
                Move::Tick(ms) => {
                    now = now.after(Duration::from_millis(ms));
                    (Step::Tick, None)
                }
            };
            let before = task.clone();
            match before.step(step, now) {
                Err(_) => {}
                Ok(change) if change.delete => {
                    prop_assert!(before.status.is_terminal());
                    break;
                }
                Ok(change) => {
                    prop_assert!(!before.status.is_terminal() || change.task == before);
                    prop_assert!(fence.is_none_or(|f| f == before.fence));
                    if change.write {
                        prop_assert_eq!(change.task.version, before.version + 1);
                    } else {
                        prop_assert_eq!(&change.task, &before);
                    }
                    task = change.task;
                }
            }
            prop_assert_eq!(task.status.is_terminal(), task.ended_at.is_some());
            if task.status == Status::InputRequired {
                prop_assert!(task.inputs.open().next().is_some());
            }
            if task.status == Status::Failed {
                prop_assert!(task.status_message.is_some());
            }
            prop_assert!(task.updated_at >= before.updated_at);
            let mut keys: Vec<_> = task.inputs.all().iter().map(|q| &q.key).collect();
            keys.sort();
            keys.dedup();
            prop_assert_eq!(keys.len(), task.inputs.all().len());
        }
    }
}

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::{Lifetime, LifetimePolicy, NewTask, Owner, TaskId};

const HERE: NodeId = NodeId::from_number(1);
const THERE: NodeId = NodeId::from_number(2);

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
        max_attempts: 3,
        node: HERE,
        key: None,
        lifetime: Lifetime::grant(&policy, Some(Duration::from_secs(2)), START),
        poll_interval: Duration::from_secs(1),
        status_message: None,
        checkpoint: None,
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

fn begin() -> Step {
    Step::Begin { node: THERE }
}

fn lose(fence: u64) -> Step {
    Step::Lose { fence, message: "its process ended".into(), loss: Loss::Died { jitter: 0 } }
}

fn checkpoint(fence: u64) -> Step {
    Step::Checkpoint { fence, state: payload("{\"at\":7}") }
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
    let lost = task(WorkClass::Repeatable).step(lose(1), START).expect("lost").task;
    assert_eq!((lost.fence, lost.attempts, lost.status), (2, 1, Status::Working));
    // Not even before anybody else has begun.
    assert_eq!(lost.step(finish(1), START).err(), Some(Refusal::StaleFence));
    assert_eq!(lost.step(finish(2), START).err(), Some(Refusal::StaleFence));
    let at = lost.carrier.ready_at().expect("ready");
    assert_eq!(at, START.after(Duration::from_millis(500)));
    assert_eq!(lost.step(begin(), START).err(), Some(Refusal::NotStartable));
    let again = lost.step(begin(), at).expect("begun").task;
    assert_eq!((again.fence, again.attempts, again.carrier), (3, 2, Carrier::Node(THERE)));
    assert_eq!(again.step(begin(), at).err(), Some(Refusal::NotStartable));
    assert_eq!(again.step(finish(2), at).err(), Some(Refusal::StaleFence));
    assert!(again.step(finish(3), at).is_ok());
}

#[test]
fn live_work_is_never_started_twice() {
    assert_eq!(task(WorkClass::Live).step(begin(), START).err(), Some(Refusal::NotStartable));
    let lost = task(WorkClass::Live).step(lose(1), START).expect("lost").task;
    assert_eq!((lost.status, lost.failure), (Status::Failed, Some(Failure::Interrupted)));
    assert_eq!(lost.step(begin(), START).err(), Some(Refusal::Terminal(Status::Failed)));
}

#[test]
fn attempts_are_counted_and_bounded_and_a_checkpoint_counts_anew() {
    let attempt = |task: Task| {
        let lost = task.step(lose(task.fence), START).expect("lost").task;
        let at = lost.carrier.ready_at()?;
        Some(lost.step(begin(), at).expect("begun").task)
    };
    for (class, given_up) in
        [(WorkClass::Repeatable, true), (WorkClass::Resumable, true), (WorkClass::External, false)]
    {
        let third = attempt(attempt(task(class)).expect("second")).expect("third");
        assert_eq!(third.attempts, if given_up { 3 } else { 1 });
        assert_eq!(attempt(third.clone()).is_none(), given_up, "{class:?}");
        let further = third.step(checkpoint(third.fence), START).expect("checkpoint").task;
        assert_eq!(further.updated_at, third.updated_at);
        let fourth = attempt(further).expect("fourth");
        assert_eq!(fourth.checkpoint, Some(payload("{\"at\":7}")));
    }
}

/// A rolling upgrade may interrupt work as often as it likes.
#[test]
fn a_shutdown_costs_no_attempt_and_no_pause() {
    let mut task = task(WorkClass::Repeatable);
    for fence in (1..20).step_by(2) {
        let lose = Step::Lose { fence, message: "shut down".into(), loss: Loss::ShutDown };
        let lost = task.step(lose, START).expect("lost").task;
        assert_eq!(lost.carrier, Carrier::Ready(START));
        task = lost.step(begin(), START).expect("begun").task;
        assert_eq!(task.attempts, 1);
    }
}

/// What a dead attempt asked is open no longer: nobody is left whom an answer would reach.
#[test]
fn the_questions_of_lost_work_are_closed() {
    let asked = task(WorkClass::Resumable).step(ask(&["a"], None), START).expect("ask").task;
    let lost = asked.step(lose(1), START).expect("lost").task;
    assert_eq!((lost.status, lost.inputs.open().count()), (Status::Working, 0));
    // Work that ended its call to ask is carried by nobody, so nobody's death touches it.
    let parked = task(WorkClass::Live).step(ask(&["a"], Some("1")), START).expect("ask").task;
    assert_eq!(parked.carrier, Carrier::Nobody);
    assert_eq!(parked.step(lose(1), START).err(), Some(Refusal::StaleFence));
}

/// Case 10: work that goes on elsewhere is stopped there, by whoever is alive, before its task can be forgotten.
#[test]
fn work_with_a_checkpoint_is_stopped_after_its_task_has_ended() {
    let external = task(WorkClass::External).step(checkpoint(1), START).expect("checkpoint").task;
    let cancelled = external.step(Step::Cancel, START).expect("cancel").task;
    assert_eq!((cancelled.status, cancelled.carrier), (Status::Cancelled, Carrier::Node(HERE)));
    assert!(cancelled.checkpoint.is_some());
    assert_eq!(cancelled.due_at(), Timestamp::NEVER);
    assert_eq!(cancelled.step(finish(1), START).err(), Some(Refusal::Terminal(Status::Cancelled)));
    // Its node dies as well; another one takes the stopping over.
    let lost = cancelled.step(lose(1), START).expect("lost").task;
    let taken = lost.step(begin(), START).expect("begun").task;
    assert_eq!(
        taken.step(Step::Stopped { fence: 1 }, START).err(),
        Some(Refusal::Terminal(Status::Cancelled))
    );
    let stopped = taken.step(Step::Stopped { fence: taken.fence }, START).expect("stopped").task;
    assert_eq!((stopped.carrier, &stopped.checkpoint), (Carrier::Nobody, &None));
    assert_eq!(stopped.due_at(), START.after(stopped.lifetime.retention));
    // Work that nobody carried when its task ended is there to be stopped at once; work that ended by itself is not.
    let waiting = external.step(lose(1), START).expect("lost").task;
    assert_eq!(waiting.step(Step::Cancel, START).expect("cancel").task.carrier, Carrier::Ready(START));
    assert_eq!(external.step(finish(1), START).expect("finish").task.carrier, Carrier::Nobody);
}

#[test]
fn work_that_is_put_back_can_be_taken_up_by_another_node() {
    let pause = Duration::from_secs(3);
    let back = Step::PutBack { fence: 1, pause, message: "not on this host".into() };
    let back = task(WorkClass::External).step(back, START).expect("put back").task;
    assert_eq!((back.carrier, back.attempts), (Carrier::Ready(START.after(pause)), 1));
    assert_eq!(back.step(finish(1), START).err(), Some(Refusal::StaleFence));
    assert_eq!(back.step(begin(), START.after(pause)).expect("begun").task.fence, 2);
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
    assert_eq!(
        (full.task.status, full.ignored, full.task.carrier),
        (Status::Working, 1, Carrier::Node(HERE))
    );
}

/// A JSON text of this length.
fn long(length: usize) -> Payload {
    payload(&format!("\"{}\"", "x".repeat(length - 2)))
}

#[test]
fn what_is_kept_of_the_work_has_an_end() {
    let before = task(WorkClass::Resumable);
    let put_down = |length| before.step(Step::Checkpoint { fence: 1, state: long(length) }, START);
    assert!(put_down(MAX_STATE).is_ok());
    assert_eq!(put_down(MAX_STATE + 1).err(), Some(Refusal::TooLong(MAX_STATE + 1)));
    let ask = |length| {
        let question = Question { params: Some(long(length)), ..question("q") };
        before.step(Step::Ask { fence: 1, questions: vec![question], resume: Some(payload("1")) }, START)
    };
    let around = "q".len() + question("q").method.len() + "1".len();
    assert_eq!(ask(MAX_STATE - around + 1).err(), Some(Refusal::TooLong(MAX_STATE + 1)));
    let asked = ask(MAX_STATE - around - 10).expect("asked").task;
    let give = |length| asked.step(Step::Answer { answers: vec![("q".to_owned(), long(length))] }, START);
    assert_eq!(give(11).err(), Some(Refusal::TooLong(MAX_STATE + 1)));
    assert!(give(10).is_ok());
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
    assert_eq!((none.task.status, none.task.carrier), (Status::Working, Carrier::Node(HERE)));
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
    assert_eq!(parked.step(begin(), START).err(), Some(Refusal::NotStartable));
    let answered = parked.step(answer(&["k"]), START).expect("answer");
    assert_eq!(answered.task.carrier, Carrier::Ready(START));
    let begun = answered.task.step(begin(), START).expect("begin");
    assert_eq!((begun.task.fence, begun.task.attempts), (2, 1));
    assert_eq!(begun.round.expect("the attempt gets its round").answers.len(), 1);
    // The answers are used up: dying now is dying like any live work.
    assert_eq!(begun.task.step(lose(2), START).expect("lost").task.status, Status::Failed);
}

#[test]
fn a_round_without_questions_is_carried_on_at_once() {
    let young = task(WorkClass::Live);
    let first = young.step(ask(&["k"], Some("1")), START).expect("ask").task;
    let first = first.step(answer(&["k"]), START).expect("answer").task;
    let again = first.step(begin(), START).expect("begin").task;
    let empty = Step::Ask { fence: 2, questions: Vec::new(), resume: Some(payload("2")) };
    let asked = again.step(empty, START).expect("ask nothing");
    let at = START.after(Duration::from_millis(100));
    assert_eq!((asked.task.status, asked.task.carrier), (Status::Working, Carrier::Ready(at)));
    assert_eq!(asked.event.map(|event| event.to), Some(Status::Working));
    let round = asked.task.step(begin(), at).expect("begin").round.expect("round");
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

fn any_step() -> impl Strategy<Value = Step> {
    let keys = || proptest::collection::vec((0u8..4).prop_map(|key| key.to_string()), 0..3);
    let fence = || 0u64..7;
    prop_oneof![
        3 => (1i64..3).prop_map(|node| Step::Begin { node: NodeId::from_number(node) }),
        1 => fence().prop_map(|fence| Step::Report { fence, message: "m".into() }),
        1 => fence().prop_map(checkpoint),
        2 => (fence(), keys(), any::<bool>()).prop_map(|(fence, keys, parked)| Step::Ask {
            fence,
            questions: keys.iter().map(|key| question(key)).collect(),
            resume: parked.then(|| payload("1")),
        }),
        2 => keys().prop_map(|keys| Step::Answer {
            answers: keys.into_iter().map(|key| (key, payload("{}"))).collect(),
        }),
        1 => (fence(), keys()).prop_map(|(fence, keys)| Step::Withdraw { fence, keys }),
        1 => fence().prop_map(finish),
        1 => fence().prop_map(|fence| Step::Finish {
            fence,
            outcome: Outcome::Error { body: payload("{}"), summary: "e".into() },
        }),
        1 => Just(Step::Cancel),
        1 => fence().prop_map(|fence| Step::Fail { fence, failure: Failure::IdleLimit, message: "x".into() }),
        3 => (fence(), proptest::option::of(any::<u8>())).prop_map(|(fence, jitter)| Step::Lose {
            fence,
            message: "x".into(),
            loss: jitter.map_or(Loss::ShutDown, |jitter| Loss::Died { jitter }),
        }),
        1 => (fence(), 0u64..2000).prop_map(|(fence, pause)| Step::PutBack {
            fence,
            pause: Duration::from_millis(pause),
            message: "x".into(),
        }),
        1 => fence().prop_map(|fence| Step::Stopped { fence }),
        1 => proptest::sample::select(vec![
            Order::Cancel,
            Order::Fail { message: "x".to_owned() },
            Order::Requeue,
            Order::Prune,
        ])
        .prop_map(Step::Order),
        2 => Just(Step::Tick),
    ]
}

/// The token an attempt writes under, for the steps only attempts make.
fn fence_of(step: &Step) -> Option<u64> {
    match step {
        Step::Report { fence, .. }
        | Step::Checkpoint { fence, .. }
        | Step::Ask { fence, .. }
        | Step::Withdraw { fence, .. }
        | Step::Finish { fence, .. }
        | Step::Fail { fence, .. }
        | Step::Lose { fence, .. }
        | Step::PutBack { fence, .. }
        | Step::Stopped { fence } => Some(*fence),
        Step::Begin { .. } | Step::Answer { .. } | Step::Cancel | Step::Order(_) | Step::Tick => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// Whatever anyone does in whatever order: a terminal status is final, the version counts every write, a stale
    /// fence changes nothing and no fence is used twice, `input_required` means that a question is open, keys stay
    /// unique, and unfinished work is carried by somebody, about to be, or waits for its requestor.
    #[test]
    fn any_interleaving_keeps_the_invariants(
        class in proptest::sample::select(&WorkClass::ALL[..]),
        steps in proptest::collection::vec((any_step(), 0u64..4000), 1..40),
    ) {
        let mut now = START;
        let mut task = task(class);
        for (step, later) in steps {
            now = now.after(Duration::from_millis(later));
            let fence = fence_of(&step);
            let (begins, loses) = (matches!(step, Step::Begin { .. }), matches!(step, Step::Lose { .. }));
            let before = task.clone();
            match before.step(step, now) {
                Err(_) => {}
                Ok(change) if change.delete => {
                    prop_assert!(before.status.is_terminal() && before.carrier == Carrier::Nobody);
                    break;
                }
                Ok(change) => {
                    prop_assert!(fence.is_none_or(|fence| fence == before.fence));
                    if change.write {
                        prop_assert_eq!(change.task.version, before.version + 1);
                    } else {
                        prop_assert_eq!(&change.task, &before);
                    }
                    if begins {
                        prop_assert!(before.carrier.ready_at().is_some_and(|at| at <= now));
                        prop_assert!(change.task.fence > before.fence);
                    }
                    if loses && !change.task.status.is_terminal() {
                        prop_assert!(change.task.fence > before.fence);
                    }
                    task = change.task;
                }
            }
            if before.status.is_terminal() {
                let visible = |task: &Task| (task.status, task.ended_at, task.outcome.clone(), task.status_message.clone(), task.updated_at);
                prop_assert_eq!(visible(&task), visible(&before));
            }
            prop_assert_eq!(task.status.is_terminal(), task.ended_at.is_some());
            let open = task.inputs.open().next().is_some();
            match (task.status, task.carrier) {
                (Status::InputRequired, Carrier::Nobody) => prop_assert!(open && task.inputs.is_parked()),
                (Status::InputRequired, carrier) => prop_assert!(open && carrier.node().is_some()),
                (Status::Working, carrier) => prop_assert!(!open && carrier != Carrier::Nobody),
                (_, Carrier::Nobody) => {}
                (_, Carrier::Node(_) | Carrier::Ready(_)) => prop_assert!(task.checkpoint.is_some()),
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

//! Steps: what they write, what they refuse, and in which order.

use taskgate_task::{Carrier, Failure, Outcome, Question, Refusal, Status, Step, Who, WorkClass};

use super::sample::{self, NOW, later};
use crate::{Store, StoreError};

/// After each step of a long life the record read is the record the step led to.
pub async fn every_step_reads_back_in_every_field<S: Store>(make: impl Fn() -> S) {
    let store = make();
    let mut new = sample::new_task();
    new.class = WorkClass::Repeatable;
    let id = sample::create(&store, new).await.id;
    let ask = |fence, resume| Step::Ask {
        fence,
        questions: vec![sample::question("a"), sample::question("ключ")],
        resume,
    };
    sample::apply(&store, id, sample::report("halfway: ½"), later(1)).await;
    sample::apply(&store, id, ask(1, None), later(2)).await;
    sample::apply(&store, id, sample::answer("a"), later(3)).await;
    sample::apply(&store, id, sample::answer("ключ"), later(4)).await;
    sample::apply(&store, id, Step::Checkpoint { fence: 1, state: sample::json("{\"at\": 7}") }, later(4))
        .await;
    sample::apply(&store, id, sample::lose(1), later(5)).await;
    sample::apply(&store, id, sample::begin(), later(505)).await;
    // The same keys again, which the task renames, in a round that ends the attempt.
    sample::apply(&store, id, ask(3, Some(sample::json("[ 1.50 ]"))), later(506)).await;
    sample::apply(&store, id, sample::answer("a~2"), later(507)).await;
    let answered = sample::apply(&store, id, sample::answer("ключ~2"), later(508)).await;
    assert_eq!(answered.task.carrier, Carrier::Ready(later(508)));
    let begun = sample::apply(&store, id, sample::begin(), later(509)).await;
    assert_eq!(begun.round.map(|round| round.answers.len()), Some(2));
    assert_eq!(begun.task.fence, 4);
    let outcome =
        Outcome::Error { body: sample::json(r#"{"code":-1,"message":"no"}"#), summary: "no".to_owned() };
    let ended = sample::apply(&store, id, Step::Finish { fence: 4, outcome }, later(510)).await;
    assert_eq!(ended.task.version, store.events(id).await.unwrap().last().unwrap().version);
}

/// Every kind of outcome and every failure of our own comes back as it was; the description of the work goes.
pub async fn every_ending_reads_back<S: Store>(make: impl Fn() -> S) {
    let store = make();
    let body = || sample::json("{\"_meta\":{ \"x\":1.0 },\"content\":[]}");
    let summary = || Some("says 'ü'".to_owned());
    let finish = |outcome| Step::Finish { fence: 1, outcome };
    let fail = |failure| Step::Fail { fence: 1, failure, message: "too bad".to_owned() };
    let endings = [
        (finish(Outcome::Result { body: body(), is_error: false, summary: None }), Status::Completed),
        (finish(Outcome::Result { body: body(), is_error: false, summary: summary() }), Status::Completed),
        (finish(Outcome::Result { body: body(), is_error: true, summary: None }), Status::Completed),
        (finish(Outcome::Result { body: body(), is_error: true, summary: summary() }), Status::Completed),
        (finish(Outcome::Error { body: body(), summary: String::new() }), Status::Failed),
        (fail(Failure::RunLimit), Status::Failed),
        (fail(Failure::IdleLimit), Status::Failed),
        (fail(Failure::Interrupted), Status::Failed),
        (fail(Failure::NoRunner), Status::Failed),
        (Step::Cancel, Status::Cancelled),
    ];
    for (step, status) in endings {
        let id = sample::create(&store, sample::new_task()).await.id;
        sample::apply(&store, id, sample::report("not yet"), later(4)).await;
        assert!(store.work(id).await.unwrap().is_some());
        assert_eq!(sample::apply(&store, id, step, later(5)).await.task.status, status);
        assert_eq!(store.work(id).await.unwrap(), None);
    }
}

/// JSON's `null` is a value somebody sent, not an absence: questions answered with it stay answered.
pub async fn payloads_of_null_are_not_lost<S: Store>(make: impl Fn() -> S) {
    let store = make();
    let id = sample::create(&store, sample::new_task()).await.id;
    let null = || sample::json("null");
    let question = Question { key: "q".to_owned(), method: "m".to_owned(), params: Some(null()) };
    let ask = Step::Ask { fence: 1, questions: vec![question], resume: Some(null()) };
    sample::apply(&store, id, ask, NOW).await;
    let answered =
        sample::apply(&store, id, Step::Answer { answers: vec![("q".to_owned(), null())] }, NOW).await;
    assert_eq!(answered.task.carrier, Carrier::Ready(NOW));
    assert_eq!(store.get(id).await.unwrap().unwrap().inputs.open().count(), 0);
}

/// A round without questions parks the work all the same.
pub async fn work_parked_without_questions_stays_parked<S: Store>(make: impl Fn() -> S) {
    let store = make();
    let id = sample::create(&store, sample::new_task()).await.id;
    let ask = Step::Ask { fence: 1, questions: Vec::new(), resume: Some(sample::json("{}")) };
    sample::apply(&store, id, ask, NOW).await;
    assert!(store.get(id).await.unwrap().unwrap().inputs.is_parked());
}

/// The order of the calls counts, not the order in which their futures are polled.
pub async fn writes_are_applied_in_the_order_of_the_calls<S: Store>(make: impl Fn() -> S) {
    let store = make();
    for _ in 0..100 {
        let new = sample::new_task();
        let id = new.id;
        let created = store.create(new);
        let reported = store.apply(id, sample::report("first"), NOW);
        let finished = store.apply(id, sample::finish(), NOW);
        let late = store.apply(id, sample::report("late"), NOW);
        assert!(matches!(late.await, Err(StoreError::Refused(Refusal::Terminal(Status::Completed)))));
        assert_eq!(finished.await.unwrap().task.version, 3);
        assert_eq!(reported.await.unwrap().task.version, 2);
        assert_eq!(created.await.unwrap().version, 1);
    }
}

/// What is refused writes neither a record nor an event.
pub async fn a_refusal_changes_nothing<S: Store>(make: impl Fn() -> S) {
    let store = make();
    let id = sample::create(&store, sample::unusual_task()).await.id;
    let ended = sample::apply(&store, id, sample::finish(), later(1)).await.task;
    let events = store.events(id).await.unwrap();
    let fail = Step::Fail { fence: 1, failure: Failure::Interrupted, message: String::new() };
    for step in [Step::Cancel, sample::finish(), sample::report("late"), sample::begin(), fail, Step::Tick] {
        sample::refused(&store, id, step, later(2)).await;
    }
    // Late answers are acknowledged, and change as little.
    assert_eq!(sample::apply(&store, id, sample::answer("q"), later(2)).await.ignored, 1);
    assert_eq!(store.get(id).await.unwrap(), Some(ended));
    assert_eq!(store.events(id).await.unwrap(), events);
}

/// An attempt that was replaced can write nothing any more.
pub async fn a_stale_fence_is_refused<S: Store>(make: impl Fn() -> S) {
    let store = make();
    let mut new = sample::new_task();
    new.class = WorkClass::Repeatable;
    let id = sample::create(&store, new).await.id;
    sample::apply(&store, id, sample::lose(1), NOW).await;
    let begun = sample::apply(&store, id, sample::begin(), later(500)).await;
    assert_eq!(begun.task.fence, 3);
    let ask = Step::Ask { fence: 1, questions: vec![sample::question("q")], resume: None };
    for step in [sample::report("old"), sample::finish(), ask] {
        let refusal = store.apply(id, step, later(1)).await;
        assert!(matches!(refusal, Err(StoreError::Refused(Refusal::StaleFence))), "{refusal:?}");
    }
    assert_eq!(store.get(id).await.unwrap(), Some(begun.task));
}

/// The events are the moves, in order, under the versions they led to; reports leave no trace.
pub async fn every_move_appends_its_event<S: Store>(make: impl Fn() -> S) {
    let store = make();
    let id = sample::create(&store, sample::new_task()).await.id;
    let mut expected = vec![store.events(id).await.unwrap().remove(0)];
    let created = &expected[0];
    assert_eq!((created.version, created.at, created.who), (1, NOW, Who::Requestor));
    assert_eq!((created.from, created.to), (None, Status::Working));
    let ask = Step::Ask { fence: 1, questions: vec![sample::question("q")], resume: None };
    for (n, step) in [ask, sample::answer("q"), sample::report("…"), Step::Cancel].into_iter().enumerate() {
        expected.extend(sample::apply(&store, id, step, later(n as u64)).await.event);
    }
    assert_eq!(store.events(id).await.unwrap(), expected);
    assert_eq!(expected.iter().map(|event| event.version).collect::<Vec<_>>(), [1, 2, 3, 5]);
}

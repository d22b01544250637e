//! For every claim evidence that breaks it, next to evidence that does not.

use std::time::Duration;

use super::{Claim, Evidence, check};
use crate::books::{Books, EventRow, TaskRow};
use crate::effects::Effect;
use crate::ledger::{Entry, Fact, MODERN_GET, SESSION_GET, SESSION_RESULT};

const NODE: i64 = 7;

fn at(second: u64) -> Duration {
    Duration::from_secs(second)
}

fn entry(since: u64, fact: Fact) -> Entry {
    Entry { since: at(since), until: at(since) + at(1) / 2, client: "c".into(), node: "n".into(), fact }
}

fn handle(task: &str, label: &str) -> Fact {
    Fact::Handle { task: task.into(), label: label.into() }
}

fn told(task: &str, status: &str, text: Option<&str>) -> Fact {
    let raw = format!("{status} {text:?}");
    let text = text.map(str::to_owned);
    Fact::Told { task: task.into(), status: status.into(), how: MODERN_GET, open: Vec::new(), raw, text }
}

/// What a client of 2025-11-25 was told at the end.
fn session(task: &str, status: &str) -> Entry {
    let mut fact = told(task, status, None);
    if let Fact::Told { how, .. } = &mut fact {
        *how = SESSION_GET;
    }
    entry(12, fact)
}

fn asked(task: &str, key: &str) -> Fact {
    Fact::Told {
        task: task.into(),
        status: "input_required".into(),
        how: MODERN_GET,
        open: vec![key.into()],
        raw: "asked".into(),
        text: None,
    }
}

fn answered(task: &str, key: &str, value: &str) -> Fact {
    Fact::Answered { task: task.into(), key: key.into(), value: value.into(), acknowledged: true }
}

fn effect(label: &str, class: &str, step: &str, nonce: &str) -> Effect {
    let [label, class, step, nonce, node] = [label, class, step, nonce, "n"].map(str::to_owned);
    Effect { label, class, step, nonce, node, answer: None }
}

fn row(locator: i64, class: i64, status: i64) -> TaskRow {
    let outcome_kind = (status == 3).then_some(1);
    TaskRow {
        id: format!("task {locator}"),
        locator,
        class,
        status,
        version: 9,
        fence: 3,
        attempts: 1,
        outcome_kind,
        ..TaskRow::default()
    }
}

fn event(task: i64, version: i64, from: Option<i64>, to: i64, why: &str) -> EventRow {
    EventRow { task, version, at: 0, from, to, why: why.into() }
}

/// One task of each class, all well: a live one, a repeatable one that was begun twice, a resumable one that did its second
/// step again, an external one, a live one that asked, one that was cancelled, one that failed, one that runs on.
fn sound() -> Evidence {
    let labels = ["live", "repeated", "resumed", "external", "asking", "cancelled", "failed", "waiting"];
    let mut entries: Vec<Entry> = labels
        .iter()
        .zip(1..)
        .map(|(label, number)| entry(0, handle(&format!("task {number}"), label)))
        .collect();
    entries.extend([
        entry(1, told("task 1", "working", None)),
        entry(1, asked("task 5", "key")),
        entry(2, answered("task 5", "key", "yes")),
        entry(3, answered("task 5", "key", "late")),
        entry(4, told("task 5", "working", None)),
        entry(4, Fact::Cancelled { task: "task 6".into() }),
        entry(5, told("task 1", "completed", Some("live by a"))),
        entry(5, Fact::Silence { what: "create".into() }),
        entry(5, Fact::Refused { what: "create".into(), error: "full".into() }),
    ]);
    let mut result = told("task 1", "ended", Some("live by a"));
    if let Fact::Told { how, .. } = &mut result {
        *how = SESSION_RESULT;
    }
    entries.push(entry(5, result));
    let ends = [
        ("task 1", "completed", Some("live by a")),
        ("task 2", "completed", Some("repeated by c")),
        ("task 3", "completed", Some("resumed by g")),
        ("task 4", "completed", Some("external by h")),
        ("task 5", "completed", Some("asking by j")),
        ("task 6", "cancelled", None),
        ("task 7", "failed", None),
        ("task 8", "working", None),
    ];
    entries.extend(ends.map(|(task, status, text)| entry(10, told(task, status, text))));
    let mut done = effect("asking", "live", "done", "j");
    done.answer = Some("yes".into());
    let effects = vec![
        effect("live", "live", "done", "a"),
        effect("repeated", "repeatable", "done", "b"),
        effect("repeated", "repeatable", "done", "c"),
        effect("resumed", "resumable", "1", "d"),
        effect("resumed", "resumable", "2", "e"),
        effect("resumed", "resumable", "2", "f"),
        effect("resumed", "resumable", "3", "g"),
        effect("external", "external", "done", "h"),
        effect("asking", "live", "asked", "i"),
        done,
        effect("nobody's", "live", "done", "k"),
        effect("nobody's other", "repeatable", "done", "l"),
        effect("nobody's other", "repeatable", "done", "m"),
    ];
    let mut waiting = row(8, 2, 1);
    waiting.carrier = Some(NODE);
    let tasks = vec![
        row(1, 1, 3),
        row(2, 2, 3),
        row(3, 3, 3),
        row(4, 4, 3),
        row(5, 1, 3),
        row(6, 1, 5),
        TaskRow { failure: Some(3), ..row(7, 1, 4) },
        waiting,
    ];
    let mut events: Vec<EventRow> = (1..=8).map(|task| event(task, 1, None, 1, "created")).collect();
    events.extend([
        event(1, 2, Some(1), 3, "result"),
        event(2, 2, Some(1), 1, "interrupted"),
        event(2, 3, Some(1), 1, "started again"),
        event(2, 4, Some(1), 3, "result"),
        event(3, 4, Some(1), 1, "interrupted"),
        event(3, 5, Some(1), 1, "carried on from its checkpoint"),
        event(3, 9, Some(1), 3, "result"),
        event(4, 2, Some(1), 1, "interrupted"),
        event(4, 3, Some(1), 1, "taken up again"),
        event(4, 4, Some(1), 3, "result"),
        event(5, 2, Some(1), 2, "1 asked"),
        event(5, 3, Some(2), 1, "1 answered"),
        event(5, 4, Some(1), 1, "carried on with the answers"),
        event(5, 5, Some(1), 3, "result"),
        event(6, 2, Some(1), 5, "cancelled by request"),
        event(7, 2, Some(1), 4, "interrupted"),
    ]);
    let last = Books { now: 100_000, exclusive: false, tasks, events, nodes: vec![(NODE, 100_000)] };
    let mut first = last.clone();
    first.events.retain(|event| event.version == 1);
    for row in &mut first.tasks {
        *row = TaskRow {
            version: 1,
            fence: 1,
            status: 1,
            outcome_kind: None,
            failure: None,
            carrier: Some(NODE),
            ..row.clone()
        };
    }
    Evidence { entries, effects, books: vec![first, last], settled: at(9), patience: at(20) }
}

#[test]
fn what_is_well_is_found_well() {
    assert_eq!(check(&sound()), []);
}

/// Changes sound evidence so that these claims, and nothing else, are found to be broken.
#[track_caller]
fn breaks_all(expected: &[Claim], doctor: impl FnOnce(&mut Evidence)) {
    let mut evidence = sound();
    doctor(&mut evidence);
    let faults = check(&evidence);
    let claims: Vec<Claim> = faults.iter().map(|fault| fault.claim).collect();
    assert_eq!(claims, expected, "{faults:#?}");
}

#[track_caller]
fn breaks(claim: Claim, doctor: impl FnOnce(&mut Evidence)) {
    breaks_all(&[claim], doctor);
}

fn last(evidence: &mut Evidence) -> &mut Books {
    evidence.books.last_mut().expect("the end")
}

fn of(evidence: &mut Evidence, locator: i64) -> &mut TaskRow {
    last(evidence).tasks.iter_mut().find(|row| row.locator == locator).expect("the row")
}

#[test]
fn a_handle_that_is_lost() {
    breaks(Claim::HandlesLast, |all| all.entries.push(entry(6, Fact::Unknown { task: "task 2".into() })));
    breaks(Claim::HandlesLast, |all| {
        all.entries.retain(|entry| {
            entry.since < at(10) || !matches!(&entry.fact, Fact::Told { task, .. } if task == "task 8")
        })
    });
    // A handle nobody has ever read, of which the store knows nothing.
    breaks_all(&[Claim::HandlesLast, Claim::HandlesLast], |all| {
        all.entries.push(entry(5, handle("task 9", "lost")))
    });
    // It was there once.
    breaks(Claim::HandlesLast, |all| {
        let more = TaskRow { id: "task 99".into(), ..row(99, 1, 1) };
        all.books[0].tasks.push(TaskRow { carrier: Some(NODE), ..more });
    });
    // Two calls with one handle.
    breaks(Claim::HandlesLast, |all| all.entries.push(entry(5, handle("task 7", "other"))));
}

#[test]
fn a_task_that_ends_twice_or_never() {
    // An end without its event leaves the record without its reason, too.
    breaks_all(&[Claim::OneEnd, Claim::EventsAgree], |all| {
        last(all).events.retain(|event| (event.task, event.version) != (7, 2));
    });
    breaks_all(&[Claim::OneEnd, Claim::NoWayBack], |all| {
        last(all).events.push(event(6, 3, Some(5), 5, "cancelled by request"));
    });
    breaks_all(&[Claim::OneEnd, Claim::EventsAgree], |all| {
        last(all).events.push(event(8, 2, Some(1), 3, "result"));
    });
}

#[test]
fn events_that_lead_elsewhere() {
    breaks(Claim::EventsAgree, |all| last(all).events.push(event(55, 1, None, 1, "created")));
    // A move from a status in which the task was not.
    breaks(Claim::EventsAgree, |all| last(all).events.push(event(8, 2, Some(2), 1, "1 answered")));
    // An event that is gone: the others do not connect any more, and the past has changed.
    breaks(Claim::EventsAgree, |all| all.books[0].events.push(event(8, 2, Some(1), 1, "report")));
    // A record that nothing has led to.
    breaks(Claim::EventsAgree, |all| {
        last(all).events.push(event(8, 2, Some(1), 2, "1 asked"));
    });
}

#[test]
fn ends_that_clients_were_told_otherwise() {
    breaks(Claim::EndsAgree, |all| all.entries.push(session("task 7", "cancelled")));
    // The same words to the same question, each time.
    breaks_all(&[Claim::EndsAgree, Claim::EffectsFit], |all| {
        all.entries.push(entry(12, told("task 1", "completed", Some("live by  a"))))
    });
    breaks(Claim::EndsAgree, |all| {
        let mut other = told("task 1", "ended", Some("live by a"));
        if let Fact::Told { how, raw, .. } = &mut other {
            (*how, *raw) = (SESSION_RESULT, "something else".into());
        }
        all.entries.push(entry(12, other));
    });
    breaks(Claim::EndsAgree, |all| all.entries.push(session("task 1", "failed")));
    // The older words call a result failed that says it is an error.
    let mut evidence = sound();
    of(&mut evidence, 1).outcome_kind = Some(2);
    evidence.entries.push(session("task 1", "failed"));
    assert_eq!(check(&evidence), []);
}

#[test]
fn a_way_back_from_the_end() {
    // In what clients see.
    breaks(Claim::NoWayBack, |all| all.entries.push(entry(12, told("task 1", "working", None))));
    // In the store, from one reading to the next.
    breaks(Claim::NoWayBack, |all| {
        let was = &mut all.books[0].tasks[0];
        (was.status, was.outcome_kind) = (5, None);
    });
    // In the events, though the record has never moved.
    breaks_all(&[Claim::OneEnd, Claim::NoWayBack], |all| {
        last(all)
            .events
            .extend([event(8, 2, Some(1), 5, "cancelled by request"), event(8, 3, Some(5), 1, "")]);
    });
}

#[test]
fn fences_and_versions_that_go_down() {
    breaks(Claim::OnlyUp, |all| all.books[0].tasks[1].fence = 4);
    breaks(Claim::OnlyUp, |all| all.books[0].tasks[1].version = 10);
    breaks(Claim::OnlyUp, |all| of(all, 5).version = 4);
    // A write that left the version as it was: two writers did not see each other.
    breaks(Claim::OnlyUp, |all| {
        let was = &mut all.books[0].tasks[7];
        (was.version, was.fence, was.attempts) = (9, 3, 2);
    });
}

#[test]
fn effects_that_do_not_fit() {
    // Live work done twice, with a handle or without; external work done twice.
    breaks(Claim::EffectsFit, |all| all.effects.push(effect("live", "live", "done", "x")));
    breaks(Claim::EffectsFit, |all| all.effects.push(effect("nobody's", "live", "done", "x")));
    breaks(Claim::EffectsFit, |all| all.effects.push(effect("external", "external", "done", "x")));
    // Repeatable work done more often than it was begun.
    breaks(Claim::EffectsFit, |all| all.effects.push(effect("repeated", "repeatable", "done", "x")));
    // Resumable work that repeats more steps than it was interrupted, goes back by two, or leaves one out.
    for step in ["3", "1", "5"] {
        breaks(Claim::EffectsFit, |all| {
            all.effects.push(effect("resumed", "resumable", step, "x"));
        });
    }
    // A result that nothing was done for, and no result at all.
    breaks(Claim::EffectsFit, |all| all.effects.retain(|effect| effect.nonce != "a"));
    breaks(Claim::EffectsFit, |all| {
        all.entries.push(entry(12, told("task 8", "working", Some("external by h"))));
    });
    breaks(Claim::EffectsFit, |all| {
        for entry in &mut all.entries {
            match &mut entry.fact {
                Fact::Told { task, text, .. } if task == "task 4" => *text = None,
                _ => {}
            }
        }
    });
    // Work that the store takes for another class.
    breaks(Claim::EffectsFit, |all| {
        all.books[0].tasks[0].class = 2;
        of(all, 1).class = 2;
    });
}

#[test]
fn answers_that_are_lost() {
    breaks(Claim::AnswersLast, |all| all.entries.push(entry(3, asked("task 5", "key"))));
    // The later of two answers arrives.
    breaks(Claim::AnswersLast, |all| all.effects[9].answer = Some("late".into()));
    // Somebody else's answer arrives.
    breaks(Claim::AnswersLast, |all| {
        all.entries.push(entry(2, answered("task 8", "key", "other")));
        all.effects[9].answer = Some("other".into());
    });
    breaks(Claim::AnswersLast, |all| all.effects[9].answer = Some("invented".into()));
}

#[test]
fn a_cancel_that_is_lost() {
    breaks(Claim::CancelsLast, |all| all.entries.push(entry(9, told("task 6", "working", None))));
    breaks(Claim::CancelsLast, |all| all.entries.push(entry(11, Fact::Cancelled { task: "task 8".into() })));
}

#[test]
fn a_task_that_is_forgotten() {
    breaks(Claim::NobodyForgotten, |all| of(all, 8).carrier = None);
    breaks(Claim::NobodyForgotten, |all| of(all, 8).carrier = Some(1));
    breaks(Claim::NobodyForgotten, |all| last(all).nodes = vec![(NODE, 79_000)]);
    breaks(Claim::NobodyForgotten, |all| {
        let row = of(all, 8);
        (row.carrier, row.ready_at) = (None, Some(79_000));
    });
    // Soon enough; in a store of one process a node needs no lease; a question may wait.
    for (is_exclusive, carrier, ready_at) in [(false, None, Some(81_000)), (true, Some(NODE), None)] {
        let mut evidence = sound();
        last(&mut evidence).exclusive = is_exclusive;
        last(&mut evidence).nodes = vec![(NODE, 0)];
        let row = of(&mut evidence, 8);
        (row.carrier, row.ready_at) = (carrier, ready_at);
        assert_eq!(check(&evidence), []);
    }
    // The work of a task that has ended may still have to be stopped.
    breaks(Claim::NobodyForgotten, |all| of(all, 6).ready_at = Some(0));
}

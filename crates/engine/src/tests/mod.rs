//! The engine's verbs with work that does as it is told, in time that stands still until it is moved.

mod bench;
mod checkpoint;
mod interleavings;
mod keys;
mod nodes;
mod orders;
mod races;

use std::sync::atomic::Ordering;
use std::time::Duration;

use taskgate_task::{Failure, MAX_STATE, Outcome, Owner, Question, Status, WorkClass};
use tokio::time::{Instant, sleep};

use self::bench::{Bench, asked, json, question, result, settle};
use crate::{AnswerTo, Ending, EngineError, InlineEvent, Launch, Store};

#[tokio::test(start_paused = true)]
async fn a_run_becomes_a_task_while_it_runs_and_is_not_started_again() {
    let mut bench = Bench::new();
    let mut call = bench.engine.start(bench.launch(), None).expect("started");
    let run = bench.run().await;
    run.report.progress(Some("before".to_owned()), json("{}"));
    assert!(
        matches!(call.next().await, InlineEvent::Progress { message: Some(line), .. } if line == "before")
    );
    run.report.progress(Some("unheard".to_owned()), json("{}"));
    let task = call.become_task(None).await.expect("created");
    assert_eq!(task.status_message.as_deref(), Some("unheard"));
    run.report.progress(Some("after".to_owned()), json("{}"));
    settle().await;
    assert_eq!(bench.get(&task).await.status_message.as_deref(), Some("after"));
    run.end.send(result("{\"x\":1.0}")).expect("heard");
    let ended = bench.engine.wait(&Owner::local(), task.id).await.expect("ended");
    assert!(matches!(ended.outcome, Some(Outcome::Result { body, .. }) if body.as_str() == "{\"x\":1.0}"));
    assert!(bench.runs.try_recv().is_err());
    settle().await;
    assert_eq!((bench.engine.carried(), bench.stopped()), (0, 0));
}

/// What is too long to be kept is not: the task says so, whatever the outcome would have been.
#[tokio::test(start_paused = true)]
async fn a_result_that_is_too_long_fails_its_task() {
    let mut bench = Bench::new();
    for (length, is_kept) in [(100, true), (bench::MAX_RESULT, true), (bench::MAX_RESULT + 1, false)] {
        let (task, run) = bench.task(bench.launch()).await;
        let text = format!("\"{}\"", "x".repeat(length - 2));
        run.end.send(result(&text)).expect("heard");
        let ended = bench.engine.wait(&Owner::local(), task.id).await.expect("ended");
        match (is_kept, ended.outcome) {
            (true, Some(Outcome::Result { body, .. })) => assert_eq!(body.as_str(), text),
            (false, Some(Outcome::Error { body, summary })) => {
                assert_eq!(ended.status, Status::Failed);
                let limit = format!("max_result ({} bytes)", bench::MAX_RESULT);
                assert!(
                    summary.contains(&limit) && summary.contains(&format!("{length} bytes")),
                    "{summary}"
                );
                assert!(body.as_str().contains(r#""reason":"max_result""#), "{}", body.as_str());
            }
            (_, outcome) => panic!("{length}: {outcome:?}"),
        }
    }
}

/// What the work puts down, and asks, has an end too: it hears so while it runs, and what ended to ask has failed.
#[tokio::test(start_paused = true)]
async fn a_state_that_is_too_long_is_refused() {
    let mut bench = Bench::new();
    let long = |more: usize| json(&format!("\"{}\"", "x".repeat(MAX_STATE - 2 + more)));
    let _call = bench.engine.start(bench.launch(), None).expect("started");
    let inline = bench.run().await;
    let (task, run) = bench.task(bench.launch()).await;
    for report in [&inline.report, &run.report] {
        report.checkpoint(long(0)).await.expect("kept");
        let refused = report.checkpoint(long(1)).await;
        assert!(matches!(refused, Err(EngineError::TooLong(_))), "{refused:?}");
    }
    let asks = || Question { params: Some(long(0)), ..question("q") };
    let refused = run.report.ask(vec![asks()]).await;
    assert!(matches!(refused, Err(EngineError::TooLong(_))), "{refused:?}");
    assert_eq!(bench.get(&task).await.status, Status::Working);
    run.end
        .send(Ending::Asked { questions: vec![asks()], state: json("1"), raw: json("{}") })
        .expect("heard");
    let ended = bench.engine.wait(&Owner::local(), task.id).await.expect("ended");
    assert_eq!(ended.status, Status::Failed);
    let line = ended.status_message.expect("a line");
    assert!(line.contains("cannot be asked") && line.contains(&MAX_STATE.to_string()), "{line}");
    settle().await;
    assert_eq!(bench.engine.carried(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_call_stops_its_work() {
    let mut bench = Bench::new();
    let call = bench.engine.start(bench.launch(), None).expect("started");
    bench.run().await;
    drop(call);
    assert_eq!(bench.stopped(), 1);
}

/// Case 18 (b): whoever goes away during the creation leaves a cancelled task, not one that nobody works on.
#[tokio::test(start_paused = true)]
async fn a_creation_nobody_waited_for_is_cancelled() {
    let mut bench = Bench::new();
    *bench.store.slow.lock() = Some(Duration::from_secs(1));
    let call = bench.engine.start(bench.launch(), None).expect("started");
    bench.run().await;
    let creation = tokio::spawn(call.become_task(None));
    settle().await;
    creation.abort();
    settle().await;
    let tasks = bench.store.list(&Owner::local(), None, 10).await.expect("listed").tasks;
    assert_eq!(tasks.iter().map(|task| task.status).collect::<Vec<_>>(), [Status::Cancelled]);
    assert_eq!((bench.engine.carried(), bench.stopped()), (0, 1));
}

/// Cases 3 and 21: one end, and whatever comes later is quiet.
#[tokio::test(start_paused = true)]
async fn the_first_end_is_the_only_one() {
    let mut bench = Bench::new();
    let (task, run) = bench.task(bench.launch()).await;
    let cancelled = bench.engine.cancel(&task.owner, task.id).await.expect("cancelled");
    assert_eq!(cancelled.status, Status::Cancelled);
    let _ = run.end.send(result("{}"));
    run.report.progress(Some("late".to_owned()), json("{}"));
    settle().await;
    assert_eq!(bench.get(&task).await, cancelled);
    let again = bench.engine.cancel(&task.owner, task.id).await;
    assert!(matches!(again, Err(EngineError::Terminal(Status::Cancelled))));
    assert!(run.report.ask(vec![question("q")]).await.is_err());
}

/// Cases 21 and 39: the run limit is absolute, stops the work, and wakes those who wait.
#[tokio::test(start_paused = true)]
async fn the_run_limit_is_absolute() {
    let mut bench = Bench::new();
    let mut launch = bench.launch();
    launch.lifetime.run_limit = Duration::from_secs(10);
    launch.lifetime.idle_limit = Some(Duration::from_secs(4));
    let (task, run) = bench.task(launch).await;
    let (engine, id) = (bench.engine.clone(), task.id);
    let waiter = tokio::spawn(async move { engine.wait(&Owner::local(), id).await });
    for n in 0..3 {
        sleep(Duration::from_secs(3)).await;
        run.report.progress(Some(n.to_string()), json("{}"));
        assert_eq!(bench.get(&task).await.status, Status::Working);
    }
    sleep(Duration::from_millis(1001)).await;
    let failed = waiter.await.expect("no panic").expect("ended");
    assert_eq!((failed.status, failed.failure), (Status::Failed, Some(Failure::RunLimit)));
    assert_eq!(bench.stopped(), 1);
}

/// Case 39: silence ends the work; waiting for the requestor is no silence.
#[tokio::test(start_paused = true)]
async fn the_idle_limit_counts_silence_only() {
    let mut bench = Bench::new();
    let mut launch = bench.launch();
    launch.lifetime.idle_limit = Some(Duration::from_secs(4));
    let (task, run) = bench.task(launch).await;
    let answers = run.report.ask(vec![question("q")]).await.expect("asked");
    sleep(Duration::from_secs(3600)).await;
    assert_eq!(bench.get(&task).await.status, Status::InputRequired);
    let ignored = bench.engine.answer(&task.owner, task.id, vec![("q".to_owned(), json("{}"))]).await;
    assert_eq!(ignored.expect("answered"), 0);
    for answer in answers {
        assert_eq!(answer.await.expect("an answer"), Ok(json("{}")));
    }
    sleep(Duration::from_millis(3900)).await;
    assert_eq!(bench.get(&task).await.status, Status::Working);
    sleep(Duration::from_millis(4200)).await;
    let failed = bench.get(&task).await;
    assert_eq!((failed.status, failed.failure), (Status::Failed, Some(Failure::IdleLimit)));
}

/// Cases 21 and 39: work that says what it waits for is not silent, however long that takes, but its run limit stands.
#[tokio::test(start_paused = true)]
async fn a_wait_is_no_silence_and_ends_with_the_run_limit() {
    for comes in [true, false] {
        let mut bench = Bench::new();
        let mut launch = bench.launch();
        launch.lifetime.run_limit = Duration::from_secs(1000);
        launch.lifetime.idle_limit = Some(Duration::from_secs(4));
        let (task, run) = bench.task(launch).await;
        let line = async |bench: &Bench| bench.get(&task).await.status_message.expect("a line");
        run.report.progress(Some("before".to_owned()), json("{}"));
        run.report.wait("waiting".to_owned());
        settle().await;
        assert_eq!(line(&bench).await, "waiting");
        sleep(Duration::from_secs(900)).await;
        assert_eq!(bench.get(&task).await.status, Status::Working);
        let (limit, left) = if comes { (Failure::IdleLimit, 4) } else { (Failure::RunLimit, 100) };
        if comes {
            run.report.go_on("there".to_owned());
            settle().await;
            assert_eq!(line(&bench).await, "there");
        }
        sleep(Duration::from_millis(left * 1000 - 100)).await;
        assert_eq!(bench.get(&task).await.status, Status::Working);
        sleep(Duration::from_millis(200)).await;
        assert_eq!(bench.get(&task).await.failure, Some(limit));
    }
}

/// The limits hold for calls that are no tasks, too.
#[tokio::test(start_paused = true)]
async fn limits_end_plain_calls() {
    for (run, idle, at) in [(5, None, 5), (60, Some(2), 2)] {
        let bench = Bench::new();
        let mut launch = bench.launch();
        launch.lifetime.run_limit = Duration::from_secs(run);
        launch.lifetime.idle_limit = idle.map(Duration::from_secs);
        let mut call = bench.engine.start(launch, None).expect("started");
        let since = Instant::now();
        let ended = call.next().await;
        assert!(matches!(ended, InlineEvent::Ended(Ending::Finished(Outcome::Error { .. }))), "{ended:?}");
        assert_eq!(since.elapsed().as_secs(), at);
    }
}

/// Case 18: whoever answers, cancels or orders may be cut off after the commit and before hearing of it. The work hears of it all
/// the same.
#[tokio::test(start_paused = true)]
async fn what_is_committed_reaches_the_work_although_its_sender_has_gone() {
    let mut bench = Bench::new();
    let cut_off = Duration::from_millis(10);
    let slowly = |bench: &Bench, pause: Option<Duration>| *bench.store.slow.lock() = pause;
    let (task, run) = bench.task(bench.launch()).await;
    let answers = run.report.ask(vec![question("q")]).await.expect("asked");
    slowly(&bench, Some(Duration::from_secs(1)));
    let given = bench.engine.answer(&task.owner, task.id, vec![("q".to_owned(), json("{}"))]);
    assert!(tokio::time::timeout(cut_off, given).await.is_err());
    for answer in answers {
        let heard = tokio::time::timeout(Duration::from_secs(5), answer).await.expect("it reaches the work");
        assert_eq!(heard.expect("an answer"), Ok(json("{}")));
    }
    assert!(tokio::time::timeout(cut_off, bench.engine.cancel(&task.owner, task.id)).await.is_err());
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(bench.stopped(), 1);
    slowly(&bench, None);
    let (task, _run) = bench.task(bench.launch()).await;
    slowly(&bench, Some(Duration::from_secs(1)));
    assert!(
        tokio::time::timeout(cut_off, bench.engine.order(task.id, taskgate_task::Order::Cancel))
            .await
            .is_err()
    );
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(bench.stopped(), 2);
}

/// Case 8 below the protocol: questions become visible together, answers reach the work by key, each once.
#[tokio::test(start_paused = true)]
async fn answers_reach_the_work_by_key() {
    let mut bench = Bench::new();
    let (task, run) = bench.task(bench.launch()).await;
    let answers = run.report.ask(vec![question("a"), question("b"), question("a")]).await.expect("asked");
    let open: Vec<String> = bench.get(&task).await.inputs.open().map(|asked| asked.key.clone()).collect();
    assert_eq!(open, ["a", "b", "a~2"]);
    let answer = |key: &str, text: &str| (key.to_owned(), json(text));
    let some = vec![answer("b", "{\"n\":2}"), answer("b", "{\"n\":9}"), answer("x", "{}")];
    assert_eq!(bench.engine.answer(&task.owner, task.id, some).await.expect("answered"), 2);
    assert_eq!(bench.get(&task).await.status, Status::InputRequired);
    let rest = vec![answer("a~2", "{\"n\":3}"), answer("a", "{\"n\":1}")];
    assert_eq!(bench.engine.answer(&task.owner, task.id, rest).await.expect("answered"), 0);
    let mut got = Vec::new();
    for receiver in answers {
        got.push(receiver.await.expect("an answer").expect("no error").as_str().to_owned());
    }
    assert_eq!(got, ["{\"n\":1}", "{\"n\":2}", "{\"n\":3}"]);
    assert_eq!(bench.get(&task).await.status, Status::Working);
    let foreign = bench.engine.answer(&Owner::anonymous(), task.id, Vec::new()).await;
    assert!(matches!(foreign, Err(EngineError::NotFound)));
}

/// What the work takes back is open no longer, a late answer is ignored, and from then on silence is the work's own.
#[tokio::test(start_paused = true)]
async fn questions_are_taken_back_by_dropping_their_receivers() {
    let mut bench = Bench::new();
    let mut launch = bench.launch();
    launch.lifetime.idle_limit = Some(Duration::from_secs(4));
    let (task, run) = bench.task(launch).await;
    let mut answers = run.report.ask(vec![question("a"), question("b")]).await.expect("asked");
    drop(answers.remove(0));
    run.report.take_back().await.expect("taken back");
    let left = bench.get(&task).await;
    assert_eq!(left.inputs.open().map(|asked| asked.key.as_str()).collect::<Vec<_>>(), ["b"]);
    assert_eq!(left.status, Status::InputRequired);
    // Nothing more is dropped, so nothing moves.
    run.report.take_back().await.expect("nothing");
    assert_eq!(bench.get(&task).await, left);
    sleep(Duration::from_secs(3600)).await;
    drop(answers);
    run.report.take_back().await.expect("taken back");
    assert_eq!(bench.get(&task).await.status, Status::Working);
    let late = ["a", "b"].map(|key| (key.to_owned(), json("{}"))).to_vec();
    assert_eq!(bench.engine.answer(&task.owner, task.id, late).await.expect("ignored"), 2);
    sleep(Duration::from_millis(3900)).await;
    assert_eq!(bench.get(&task).await.status, Status::Working);
    sleep(Duration::from_millis(200)).await;
    assert_eq!(bench.get(&task).await.failure, Some(Failure::IdleLimit));
}

/// A call that becomes a task brings no question along that was taken back before.
#[tokio::test(start_paused = true)]
async fn a_question_taken_back_unseen_is_none_of_the_task() {
    let mut bench = Bench::new();
    let mut call = bench.engine.start(bench.launch(), None).expect("started");
    let run = bench.run().await;
    let seen = run.report.ask(vec![question("seen")]).await.expect("asked");
    let InlineEvent::Asked(mut questions) = call.next().await else { panic!("no question") };
    drop(seen);
    run.report.take_back().await.expect("taken back");
    questions.remove(0).reply.closed().await;
    drop(run.report.ask(vec![question("unseen")]).await.expect("asked"));
    run.report.take_back().await.expect("taken back");
    let task = call.become_task(None).await.expect("created");
    settle().await;
    let task = bench.get(&task).await;
    assert_eq!((task.status, task.inputs.open().count()), (Status::Working, 0));
}

/// Questions that nobody has seen when the call becomes a task belong to the task.
#[tokio::test(start_paused = true)]
async fn unseen_questions_move_to_the_task() {
    let mut bench = Bench::new();
    let mut call = bench.engine.start(bench.launch(), None).expect("started");
    let run = bench.run().await;
    let seen = run.report.ask(vec![question("seen")]).await.expect("asked");
    let InlineEvent::Asked(questions) = call.next().await else { panic!("no question") };
    for AnswerTo { reply, .. } in questions {
        reply.send(Ok(json("{}"))).expect("heard");
    }
    assert_eq!(seen.len(), 1);
    let mut unseen = run.report.ask(vec![question("unseen")]).await.expect("asked");
    let task = call.become_task(None).await.expect("created");
    settle().await;
    assert_eq!(bench.get(&task).await.status, Status::InputRequired);
    bench
        .engine
        .answer(&task.owner, task.id, vec![("unseen".to_owned(), json("{\"n\":1}"))])
        .await
        .expect("answered");
    assert_eq!(unseen.remove(0).await.expect("an answer"), Ok(json("{\"n\":1}")));
}

/// Work that ended its call to ask: nothing runs while it waits, a restart changes nothing, all answers start it again.
#[tokio::test(start_paused = true)]
async fn parked_work_waits_for_all_its_answers() {
    let mut bench = Bench::new();
    let (task, run) = bench.task(bench.launch()).await;
    run.end.send(asked(&["a", "b"], "\"state\"")).expect("heard");
    settle().await;
    assert_eq!((bench.get(&task).await.status, bench.engine.carried()), (Status::InputRequired, 0));
    let answer = |key: &str| vec![(key.to_owned(), json(&format!("{{\"k\":\"{key}\"}}")))];
    bench.engine.answer(&task.owner, task.id, answer("b")).await.expect("answered");
    let engine = bench.restarted();
    assert_eq!(engine.rescue().await.expect("rescued"), 0);
    settle().await;
    assert!(bench.runs.try_recv().is_err());
    engine.answer(&task.owner, task.id, answer("a")).await.expect("answered");
    let run = bench.run().await;
    let round = run.work.round.expect("a round");
    assert_eq!(round.state, json("\"state\""));
    assert_eq!(round.answers.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    // The answers are there but their attempt dies before it begins: the next process carries on with them.
    assert_eq!(bench.get(&task).await.status, Status::Working);
    run.end.send(asked(&["a"], "null")).expect("heard");
    settle().await;
    engine.answer(&task.owner, task.id, answer("a~2")).await.expect("answered");
    let run = bench.run().await;
    assert_eq!(run.work.round.expect("a round").answers, [("a".to_owned(), json("{\"k\":\"a~2\"}"))]);
    run.end.send(result("{}")).expect("heard");
    assert_eq!(engine.wait(&task.owner, task.id).await.expect("ended").status, Status::Completed);
}

/// Case 4: what a restart decides for each kind of unfinished task.
#[tokio::test(start_paused = true)]
async fn a_restart_decides_once_for_each_task() {
    let mut bench = Bench::new();
    let (live, _live) = bench.task(bench.launch()).await;
    let (asking, asking_run) = bench.task(bench.launch()).await;
    let _answers = asking_run.report.ask(vec![question("q")]).await.expect("asked");
    let repeatable = Launch { class: WorkClass::Repeatable, ..bench.launch() };
    let (again, _again) = bench.task(repeatable.clone()).await;
    let (orphan, _orphan) = bench.task(Launch { runner: "gone".to_owned(), ..repeatable }).await;
    let mut engine = bench.restarted();
    assert_eq!(engine.rescue().await.expect("rescued"), 4);
    for task in [&live, &asking] {
        assert_eq!(bench.get(task).await.failure, Some(Failure::Interrupted));
    }
    let run = bench.run().await;
    assert_eq!((run.work.attempt, bench.get(&again).await.attempts), (2, 2));
    sleep(Duration::from_millis(500)).await;
    assert_eq!(bench.get(&orphan).await.failure, Some(Failure::NoRunner));
    // An attempt of the dead process is fenced off.
    asking_run.report.progress(Some("ghost".to_owned()), json("{}"));
    for attempt in 3..=5 {
        engine = bench.restarted();
        engine.rescue().await.expect("rescued");
        assert_eq!(bench.run().await.work.attempt, attempt);
    }
    engine = bench.restarted();
    engine.rescue().await.expect("rescued");
    let given_up = bench.get(&again).await;
    assert_eq!(given_up.failure, Some(Failure::Interrupted));
    assert!(given_up.status_message.expect("words").contains("5 times"));
    drop(run);
}

/// A drain waits for tasks and plain calls within the grace time, then hands over as the classes say.
#[tokio::test(start_paused = true)]
async fn a_drain_waits_and_hands_over() {
    let mut bench = Bench::new();
    let (live, _live) = bench.task(bench.launch()).await;
    let repeatable = Launch { class: WorkClass::Repeatable, ..bench.launch() };
    let (again, _again) = bench.task(repeatable).await;
    let (soon, soon_run) = bench.task(bench.launch()).await;
    let engine = bench.engine.clone();
    let draining = tokio::spawn(async move { engine.drain(Duration::from_secs(10)).await });
    settle().await;
    assert!(matches!(bench.engine.start(bench.launch(), None), Err(EngineError::Draining)));
    soon_run.end.send(result("{}")).expect("heard");
    let since = Instant::now();
    draining.await.expect("no panic");
    assert_eq!(since.elapsed().as_secs(), 9);
    assert_eq!(bench.get(&soon).await.status, Status::Completed);
    assert_eq!(bench.get(&live).await.failure, Some(Failure::Interrupted));
    assert_eq!(bench.get(&again).await.status, Status::Working);
    assert_eq!((bench.engine.carried(), bench.stopped()), (0, 2));

    let mut bench = Bench::new();
    let mut call = bench.engine.start(bench.launch(), None).expect("started");
    let run = bench.run().await;
    let engine = bench.engine.clone();
    let draining = tokio::spawn(async move { engine.drain(Duration::from_secs(10)).await });
    settle().await;
    run.end.send(result("{}")).expect("heard");
    assert!(matches!(call.next().await, InlineEvent::Ended(_)));
    assert!(!draining.is_finished());
    drop(call);
    let since = Instant::now();
    draining.await.expect("no panic");
    assert!(since.elapsed() < Duration::from_secs(1));
}

/// Answers that arrive during a drain are kept, and the next process carries on with them.
#[tokio::test(start_paused = true)]
async fn answers_during_a_drain_are_for_the_next_process() {
    let mut bench = Bench::new();
    let (task, run) = bench.task(bench.launch()).await;
    run.end.send(asked(&["a"], "null")).expect("heard");
    settle().await;
    bench.engine.drain(Duration::from_secs(1)).await;
    bench.engine.answer(&task.owner, task.id, vec![("a".to_owned(), json("{}"))]).await.expect("answered");
    settle().await;
    assert!(bench.runs.try_recv().is_err());
    let engine = bench.restarted();
    assert_eq!(engine.rescue().await.expect("rescued"), 0);
    let run = bench.run().await;
    assert_eq!(run.work.round.expect("a round").answers.len(), 1);
    run.end.send(result("{}")).expect("heard");
    assert_eq!(engine.wait(&task.owner, task.id).await.expect("ended").status, Status::Completed);
}

/// Case 38: a store that is broken for a while loses no outcome.
#[tokio::test(start_paused = true)]
async fn an_outcome_is_written_as_soon_as_the_store_works_again() {
    let mut bench = Bench::new();
    let (task, run) = bench.task(bench.launch()).await;
    bench.store.broken.store(20, Ordering::SeqCst);
    run.end.send(result("{}")).expect("heard");
    sleep(Duration::from_secs(1)).await;
    assert_eq!(bench.get(&task).await.status, Status::Working);
    let ended = bench.engine.wait(&task.owner, task.id).await.expect("ended");
    assert_eq!(ended.status, Status::Completed);
}

/// Case 2: the ttl of a running task grows with it; what has ended is deleted after its retention, and not found before
/// the deletion.
#[tokio::test(start_paused = true)]
async fn time_alone_grows_fails_and_deletes() {
    let mut bench = Bench::new();
    let upkeep = bench.engine.start_upkeep();
    let mut launch = bench.launch();
    launch.lifetime.run_limit = Duration::from_secs(100);
    let call = bench.engine.start(launch, None).expect("started");
    let task = call.become_task(Some(Duration::from_secs(2))).await.expect("created");
    let run = bench.run().await;
    assert_eq!(task.lifetime.ttl, Duration::from_secs(2));
    sleep(Duration::from_secs(50)).await;
    let grown = bench.get(&task).await;
    assert!(grown.lifetime.ttl > Duration::from_secs(50) && grown.updated_at > task.updated_at, "{grown:?}");
    run.end.send(result("{}")).expect("heard");
    settle().await;
    let mut watch = bench.engine.watch(&task.owner, task.id).await.expect("watched");
    sleep(Duration::from_millis(1990)).await;
    assert_eq!(bench.get(&task).await.status, Status::Completed);
    sleep(Duration::from_millis(15)).await;
    assert!(matches!(bench.engine.get(&task.owner, task.id).await, Err(EngineError::NotFound)));
    assert!(bench.engine.list(&task.owner, None, 10).await.expect("listed").tasks.is_empty());
    assert!(matches!(watch.changed().await, Err(EngineError::NotFound)));
    assert!(bench.store.get(task.id).await.expect("read").is_none());
    // Upkeep ends with the engine.
    let Bench { engine, .. } = bench;
    drop((engine, run.report, watch));
    upkeep.await.expect("ended by itself");
}

/// Owners are compared before anything else is looked at.
#[tokio::test(start_paused = true)]
async fn what_is_someone_elses_does_not_exist() {
    let mut bench = Bench::new();
    let (task, _run) = bench.task(bench.launch()).await;
    let other = Owner::named("other");
    assert!(matches!(bench.engine.get(&other, task.id).await, Err(EngineError::NotFound)));
    assert!(matches!(bench.engine.cancel(&other, task.id).await, Err(EngineError::NotFound)));
    assert!(matches!(bench.engine.wait(&other, task.id).await, Err(EngineError::NotFound)));
    assert!(bench.engine.watch(&other, task.id).await.is_err());
    assert!(bench.engine.list(&other, None, 10).await.expect("listed").tasks.is_empty());
    assert_eq!(bench.get(&task).await.status, Status::Working);
}

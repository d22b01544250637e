//! kill -9 of the real `taskgate serve` before and after each commit of a task's life.
//!
//! Before: the store is held up from outside, so that the commit cannot have happened. After: the commit is seen in the
//! store, and whoever asked for it has not heard of it, since the answer is thrown away on its way.
//!
//! Issue 4, Proof; CASES 3, 4, 8, 13, 18 and 20. What each point must lead to stands in its test; what must hold
//! at every point the checker sees to.

use std::fs;
use std::net::SocketAddr;
use std::process::Stdio;
use std::thread;
use std::time::Instant;

use serde_json::json;
use taskgate_proof::books::TaskRow;
use taskgate_proof::effects;
use taskgate_proof::modern::Modern;
use taskgate_proof::program::{Program, nothing_left_of, processes_with};
use taskgate_proof::proxy::{Passage, Proxy};
use taskgate_proof::wait;
use taskgate_proof::witness::{Gone, Sight, Witness};

use crate::site::{Closed, Site};
use crate::store::Held;

/// A site with its one node.
struct Scene {
    site: Site,
    gateway: Option<Program>,
    address: SocketAddr,
}

impl Scene {
    fn start(site: Site) -> Scene {
        let (gateway, address) = site.serve();
        Scene { site, gateway: Some(gateway), address }
    }

    fn client(&self) -> Witness<'_> {
        Witness::modern(&self.site.ledger, "client", self.address)
    }

    /// Makes a task of each of these tools, its label the tool's name. Its work, or its question, waits for the gate `open`.
    fn create<const N: usize>(&self, tools: [&str; N]) -> [String; N] {
        tools.map(|tool| {
            let arguments = json!({ "label": tool, "hold": "open", "hold_asking": true });
            self.client().create(tool, &arguments).expect("an answer").expect("a handle")
        })
    }

    fn get(&self, task: &str) -> Sight {
        self.client().get(task).expect("an answer").expect("a task")
    }

    fn row(&self, task: &str) -> TaskRow {
        let books = self.site.store.read();
        books.tasks.into_iter().find(|row| row.id == task).expect("the record")
    }

    /// How often this work has had this effect.
    fn done(&self, label: &str, step: &str) -> usize {
        let effects = effects::read(self.site.path());
        effects.iter().filter(|effect| effect.label == label && effect.step == step).count()
    }

    fn wait_for(&self, label: &str, step: &str, count: usize) {
        wait::until(&format!("{label} {step} {count} times"), || {
            (self.done(label, step) == count).then_some(())
        });
    }

    fn until(&self, task: &str, status: &str) {
        wait::until(status, || (self.get(task).status == status).then_some(()));
    }

    /// The answers of the work with these labels have reached the gateway: the server has written them, and something
    /// that came after them on the same pipe is here.
    fn answered(&self, labels: &[&str]) {
        wait::until("the answers", || {
            let noted = fs::read_to_string(self.site.path().join("answered")).unwrap_or_default();
            labels.iter().all(|label| noted.lines().any(|line| line == *label)).then_some(())
        });
        // Every server is asked whether it has this tool now.
        let unknown =
            Modern::new(self.address).call("tools/call", json!({ "name": "unknown", "arguments": {} }));
        assert_eq!(unknown.expect_err("no such tool")["code"], -32602);
    }

    /// `kill -9`. Nothing of it runs on.
    fn kill(&mut self) {
        self.gateway.take().expect("it runs").kill();
        nothing_left_of(self.site.mark());
        self.site.look();
    }

    fn start_again(&mut self) {
        let (gateway, address) = self.site.serve();
        (self.gateway, self.address) = (Some(gateway), address);
    }

    /// Kills while nobody can write and `request` of a client is under way, and starts again.
    fn kill_before(&mut self, request: impl FnOnce(&mut Witness<'_>) -> Result<(), Gone> + Send) {
        let held = self.site.store.hold();
        let watched = self.site.store.read();
        let (gateway, address) = (self.gateway.take().expect("it runs"), self.address);
        let (ledger, folder) = (&self.site.ledger, self.site.path());
        thread::scope(|scope| {
            let asking = scope.spawn(move || request(&mut Witness::modern(ledger, "cut off", address)));
            // Others are served meanwhile, and a call has begun. However far the request has come: its commit is not possible.
            wait::until("an effect", || (!effects::read(folder).is_empty()).then_some(()));
            let mut other = Modern::new(address);
            for task in watched.tasks.iter().cycle().take(20) {
                other.get(&task.id);
            }
            gateway.kill();
            assert_eq!(asking.join().expect("no panic"), Err(Gone), "there was an answer before the commit");
        });
        self.resume(held);
    }

    /// Lets the store go and starts again.
    fn resume(&mut self, held: Held) {
        nothing_left_of(self.site.mark());
        drop(held);
        self.site.look();
        self.start_again();
    }

    /// Kills as soon as the store shows that the commit of `request` has happened, of which the client does not hear, and
    /// starts again.
    fn kill_after(
        &mut self,
        request: impl FnOnce(&mut Witness<'_>) -> Result<(), Gone> + Send,
        is_committed: impl Fn(&[TaskRow]) -> bool,
    ) {
        let proxy = Proxy::start(&[self.address]);
        proxy.set(Passage::Deaf);
        let (gateway, address) = (self.gateway.take().expect("it runs"), proxy.address());
        let (ledger, store) = (&self.site.ledger, &self.site.store);
        thread::scope(|scope| {
            let asking = scope.spawn(move || request(&mut Witness::modern(ledger, "cut off", address)));
            at_once(|| is_committed(&store.read().tasks));
            gateway.kill();
            assert_eq!(asking.join().expect("no panic"), Err(Gone), "there was an answer");
        });
        nothing_left_of(self.site.mark());
        self.site.look();
        self.start_again();
    }

    /// Lets all work end, and has everything checked.
    fn close(mut self) -> Closed {
        self.site.open("open");
        let gateway = self.gateway.take().expect("it runs");
        self.site.close(gateway, self.address)
    }
}

/// Looks without a pause: what is to be killed must not get on meanwhile.
fn at_once(mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + wait::DEADLINE;
    while !is_so() {
        assert!(Instant::now() < end, "waited in vain for a commit");
    }
}

fn create(client: &mut Witness<'_>, tool: &str) -> Result<(), Gone> {
    client.create(tool, &json!({ "label": tool, "hold": "open" })).map(drop)
}

/// The work begins while its creation is being committed. Without the commit nobody has a handle, and nothing is run again.
fn before_the_creation(site: Site) {
    for tool in ["work_live", "work_repeatable"] {
        let mut scene = Scene::start(Site::like(&site));
        scene.kill_before(|client| create(client, tool));
        assert!(scene.site.store.read().tasks.is_empty(), "{tool} was kept");
        assert!(scene.done(tool, "done") <= 1);
        assert!(scene.close().evidence.effects.len() <= 1);
    }
}

/// The task is there although its caller does not know: its class decides, and nobody forgets it.
fn after_the_creation(site: Site) {
    for (tool, failed, begun) in [("work_live", true, 1), ("work_repeatable", false, 2)] {
        let mut scene = Scene::start(Site::like(&site));
        // The commit may come before the work has begun; what counts is when it has.
        let begins = scene.site.path().to_owned();
        scene.kill_after(
            |client| create(client, tool),
            |rows| rows.len() == 1 && !effects::read(&begins).is_empty(),
        );
        let closed = scene.close();
        let row = &closed.evidence.books.last().expect("the end").tasks[0];
        assert_eq!((row.status == 4, closed.evidence.effects.len()), (failed, begun), "{tool}: {row:?}");
    }
}

/// The questions are lost with their attempt; work that may be repeated asks again.
fn before_questions_are_committed(site: Site) {
    let mut scene = Scene::start(site);
    let [live, again] = scene.create(["ask_live", "ask_repeatable"]);
    for label in ["ask_live", "ask_repeatable"] {
        scene.wait_for(label, "asked", 1);
    }
    let held = scene.site.store.hold();
    scene.site.open("open");
    scene.answered(&["ask_live", "ask_repeatable"]);
    assert_eq!((scene.get(&live).status, scene.get(&again).status), ("working".into(), "working".into()));
    scene.gateway.take().expect("it runs").kill();
    scene.resume(held);
    scene.until(&live, "failed");
    scene.until(&again, "input_required");
    assert_eq!((scene.done("ask_live", "asked"), scene.done("ask_repeatable", "asked")), (1, 2));
    let closed = scene.close();
    assert_eq!(closed.ends(), [4, 3]);
}

/// Nothing ran, so nothing is lost, whatever the class: the same questions wait for their answers.
fn after_questions_are_committed(site: Site) {
    let mut scene = Scene::start(site);
    scene.site.open("open");
    let tasks = scene.create(["ask_live", "ask_repeatable"]);
    at_once(|| scene.site.store.read().tasks.iter().filter(|row| row.status == 2).count() == 2);
    scene.kill();
    scene.start_again();
    for task in &tasks {
        assert_eq!(scene.get(task).status, "input_required");
    }
    let closed = scene.close();
    assert_eq!(closed.ends(), [3, 3]);
    assert_eq!(closed.evidence.effects.len(), 4, "a question or an answer was worked on twice");
}

/// An answer that was not committed was not acknowledged. The question is still open, and takes another answer.
fn before_an_answer_is_committed(site: Site) {
    let mut scene = Scene::start(site);
    scene.site.open("open");
    let [task] = scene.create(["ask_live"]);
    scene.until(&task, "input_required");
    let key = scene.get(&task).open.remove(0);
    scene.kill_before(|client| client.answer(&task, &key).map(drop));
    assert_eq!(scene.get(&task).open, [key]);
    let closed = scene.close();
    assert_eq!(closed.ends(), [3]);
    let answers: Vec<_> =
        closed.evidence.effects.iter().filter_map(|effect| effect.answer.as_deref()).collect();
    assert_eq!(answers, ["settling/1"]);
}

/// An answer that was committed is not asked for again, although nobody was told that it arrived, and it is the one
/// that the work gets. The work had not been taken up before the kill: that commit is refused until after it.
fn after_an_answer_is_committed(site: Site) {
    for tool in ["ask_live", "ask_repeatable"] {
        let mut scene = Scene::start(Site::like(&site));
        scene.site.open("open");
        let [task] = scene.create([tool]);
        scene.until(&task, "input_required");
        let key = scene.get(&task).open.remove(0);
        scene.site.store.refuse_beginnings();
        scene.kill_after(
            |client| client.answer(&task, &key).map(drop),
            |rows| rows.iter().all(|row| row.status == 1 && row.ready_at.is_some()),
        );
        assert_eq!(scene.get(&task).open, [""; 0]);
        scene.site.store.allow_beginnings();
        let closed = scene.close();
        assert_eq!(closed.ends(), [3]);
        let answers: Vec<_> = closed.evidence.effects.iter().map(|effect| effect.answer.as_deref()).collect();
        assert_eq!(answers, [None, Some("cut off/1")]);
    }
}

/// A result that was not committed is lost: work that may be repeated is, other work is not said to have succeeded.
fn before_a_result_is_committed(site: Site) {
    let mut scene = Scene::start(site);
    scene.create(["work_live", "work_repeatable"]);
    for label in ["work_live", "work_repeatable"] {
        scene.wait_for(label, "done", 1);
    }
    let held = scene.site.store.hold();
    scene.site.open("open");
    scene.answered(&["work_live", "work_repeatable"]);
    scene.gateway.take().expect("it runs").kill();
    scene.resume(held);
    let closed = scene.close();
    assert_eq!(closed.ends(), [4, 3]);
    assert_eq!(closed.evidence.effects.len(), 3);
}

/// A result that was committed is there, although nobody was told, and the work is not run again.
fn after_a_result_is_committed(site: Site) {
    let mut scene = Scene::start(site);
    let tasks = scene.create(["work_live", "work_repeatable"]);
    for label in ["work_live", "work_repeatable"] {
        scene.wait_for(label, "done", 1);
    }
    scene.site.open("open");
    at_once(|| scene.site.store.read().tasks.iter().all(|row| row.status == 3));
    scene.kill();
    scene.start_again();
    for task in &tasks {
        assert_eq!(scene.get(task).status, "completed");
    }
    let closed = scene.close();
    assert_eq!(closed.ends(), [3, 3]);
    assert_eq!(closed.evidence.effects.len(), 2);
}

/// A cancel that was not committed was not acknowledged: the class decides, as if nobody had asked for it.
fn before_a_cancel_is_committed(site: Site) {
    for (tool, end) in [("work_live", 4), ("work_repeatable", 3)] {
        let mut scene = Scene::start(Site::like(&site));
        let [task] = scene.create([tool]);
        scene.wait_for(tool, "done", 1);
        scene.kill_before(|client| client.cancel(&task).map(drop));
        assert_eq!(scene.close().ends(), [end]);
    }
}

/// A cancel that was committed holds, although nobody was told, and the work is not run again.
fn after_a_cancel_is_committed(site: Site) {
    for tool in ["work_live", "work_repeatable", "ask_repeatable"] {
        let mut scene = Scene::start(Site::like(&site));
        let [task] = scene.create([tool]);
        let step = if tool.starts_with("ask") { "asked" } else { "done" };
        scene.wait_for(tool, step, 1);
        scene.kill_after(
            |client| client.cancel(&task).map(drop),
            |rows| rows.iter().all(|row| row.status == 5),
        );
        assert_eq!(scene.get(&task).status, "cancelled");
        let closed = scene.close();
        assert_eq!((closed.ends(), closed.evidence.effects.len()), (vec![5], 1), "{tool}");
    }
}

/// A second attempt that was not committed has not begun: nothing ran, and it is not counted.
fn before_a_beginning_is_committed(site: Site) {
    let mut scene = Scene::start(site);
    let [task] = scene.create(["work_repeatable"]);
    scene.wait_for("work_repeatable", "done", 1);
    scene.kill();
    scene.site.store.refuse_beginnings();
    for _ in 0..2 {
        scene.start_again();
        // It was tried, and tried in vain.
        wait::until("an attempt to begin", || {
            let said = scene.gateway.as_ref().map(Program::said).unwrap_or_default();
            said.contains("cannot begin work").then_some(())
        });
        let row = scene.row(&task);
        assert_eq!((row.attempts, row.carrier, row.status), (1, None, 1));
        scene.kill();
    }
    scene.site.store.allow_beginnings();
    scene.start_again();
    scene.wait_for("work_repeatable", "done", 2);
    assert_eq!(scene.row(&task).attempts, 2);
    let closed = scene.close();
    assert_eq!((closed.ends(), closed.evidence.effects.len()), (vec![3], 2));
}

/// A second attempt that was committed counts, even if its work did not get as far as an effect.
fn after_a_beginning_is_committed(site: Site) {
    let mut scene = Scene::start(site);
    let [task] = scene.create(["work_repeatable"]);
    scene.wait_for("work_repeatable", "done", 1);
    scene.kill();
    scene.start_again();
    at_once(|| scene.row(&task).attempts == 2);
    scene.kill();
    scene.start_again();
    wait::until("the third attempt", || (scene.row(&task).attempts == 3).then_some(()));
    let closed = scene.close();
    assert_eq!(closed.ends(), [3]);
    let effects = closed.evidence.effects.len();
    assert!((2..=3).contains(&effects), "{effects} effects");
}

/// The decisions about what a dead process has left are not made while nobody can write, and are made by the next start.
fn before_the_decisions_of_a_start(site: Site) {
    let mut scene = Scene::start(site);
    scene.create(["work_live", "work_repeatable"]);
    for label in ["work_live", "work_repeatable"] {
        scene.wait_for(label, "done", 1);
    }
    scene.kill();
    let before = scene.site.look();
    let held = scene.site.store.hold();
    let mut starting = scene.site.node("one");
    starting.stdin(Stdio::null()).stdout(Stdio::null());
    let starting = Program::start(starting);
    wait::until("a process at its store", || scene.site.store.is_used_by(starting.pid()).then_some(()));
    starting.kill();
    nothing_left_of(scene.site.mark());
    assert_eq!(scene.site.look().events, before.events);
    scene.resume(held);
    let closed = scene.close();
    assert_eq!(closed.ends(), [4, 3]);
}

/// A command that was started apart is never started a second time, wherever its gateway is killed: before its result is
/// committed, and after it. The next gateway has its result.
#[test]
fn a_command_is_run_once() {
    for is_committed in [false, true] {
        let mut scene = Scene::start(Site::sqlite());
        let [task] = scene.create(["run_external"]);
        scene.wait_for("run_external", "done", 1);
        let held = (!is_committed).then(|| scene.site.store.hold());
        scene.site.open("open");
        if is_committed {
            at_once(|| scene.row(&task).status == 3);
        } else {
            wait::until("the end of the command", || {
                processes_with(&format!("{} one command", scene.site.mark())).is_empty().then_some(())
            });
            assert_eq!(scene.get(&task).status, "working");
        }
        scene.gateway.take().expect("it runs").kill();
        nothing_left_of(scene.site.mark());
        drop(held);
        scene.site.look();
        scene.start_again();
        let closed = scene.close();
        assert_eq!((closed.ends(), closed.evidence.effects.len()), (vec![3], 1));
    }
}

macro_rules! at_each_point {
    ($($point:ident)*) => {
        mod sqlite {
            use crate::site::Site;
            $(#[test] fn $point() { super::$point(Site::sqlite()); })*
        }
        mod postgres {
            use crate::site::Site;
            $(#[test] fn $point() { super::$point(Site::postgres()); })*
        }
    };
}

at_each_point! {
    before_the_creation
    after_the_creation
    before_questions_are_committed
    after_questions_are_committed
    before_an_answer_is_committed
    after_an_answer_is_committed
    before_a_result_is_committed
    after_a_result_is_committed
    before_a_cancel_is_committed
    after_a_cancel_is_committed
    before_a_beginning_is_committed
    after_a_beginning_is_committed
    before_the_decisions_of_a_start
}

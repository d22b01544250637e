//! Random lives of several nodes: whatever is done, on whatever node, and whoever dies meanwhile, in the end every task has
//! ended exactly once, nobody was told otherwise before, and nothing ran more often than its class allows.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use proptest::prelude::*;
use taskgate_task::{Carrier, Owner, Status, Task, TaskId, WorkClass};
use tokio::time::sleep;

use super::bench::{Bench, Moody, Run, asked, json, question, result, settle};
use crate::{Ending, EngineError, Launch, MemoryStore, Store};

const NODES: usize = 3;

#[derive(Debug, Clone)]
enum Act {
    Create(usize, WorkClass),
    Report(usize, Said),
    Answer(usize, usize),
    Cancel(usize, usize),
    /// A node is cut off from the store, as a dead or frozen one is.
    Away(usize),
    Back(usize),
    Wait(u64),
}

/// What a run says.
#[derive(Debug, Clone)]
enum Said {
    Progress,
    Checkpoint,
    Ask,
    Park,
    Finish,
    Lost,
    PutBack,
}

fn act() -> impl Strategy<Value = Act> {
    let said = prop_oneof![
        1 => Just(Said::Progress),
        2 => Just(Said::Checkpoint),
        3 => Just(Said::Ask),
        2 => Just(Said::Park),
        3 => Just(Said::Finish),
        1 => Just(Said::Lost),
        1 => Just(Said::PutBack),
    ];
    let class = proptest::sample::select(&WorkClass::ALL[..]);
    prop_oneof![
        4 => (0..NODES, class).prop_map(|(node, class)| Act::Create(node, class)),
        6 => (0..64usize, said).prop_map(|(run, said)| Act::Report(run, said)),
        4 => (0..NODES, 0..64usize).prop_map(|(node, task)| Act::Answer(node, task)),
        1 => (0..NODES, 0..64usize).prop_map(|(node, task)| Act::Cancel(node, task)),
        2 => (0..NODES).prop_map(Act::Away),
        2 => (0..NODES).prop_map(Act::Back),
        4 => prop_oneof![0u64..50, 0u64..4000, 10_000u64..40_000].prop_map(Act::Wait),
    ]
}

/// Everything there is, and what was promised.
struct World {
    nodes: Vec<Bench>,
    /// The tasks whose handles were given, with the labels of their work.
    tasks: Vec<(String, Task)>,
    calls: usize,
    /// Runs that were not heard to end, on whatever node.
    runs: Vec<Run>,
    begun: HashMap<String, u32>,
    cancelled: Vec<TaskId>,
}

impl World {
    async fn new() -> World {
        let first = Bench::over(Moody::over(MemoryStore::shared()));
        let mut nodes = vec![first];
        for _ in 1..NODES {
            nodes.push(nodes[0].another());
        }
        for node in &nodes {
            node.engine.rescue().await.expect("joined");
            node.engine.start_upkeep();
        }
        World {
            nodes,
            tasks: Vec::new(),
            calls: 0,
            runs: Vec::new(),
            begun: HashMap::new(),
            cancelled: Vec::new(),
        }
    }

    /// Takes in the runs that have begun.
    fn collect(&mut self) {
        for node in &mut self.nodes {
            while let Ok(run) = node.runs.try_recv() {
                let label = run.work.description.text().as_str().to_owned();
                *self.begun.entry(label).or_default() += 1;
                self.runs.push(run);
            }
        }
    }

    async fn act(&mut self, act: Act) {
        match act {
            Act::Create(node, class) => {
                self.calls += 1;
                let label = self.calls.to_string();
                let node = &self.nodes[node];
                let work = json(&label).into();
                let launch = Launch { class, work, max_attempts: 3, ..node.launch() };
                // A node that is away gives no handle out, and nobody is promised anything.
                if let Ok(task) = node.engine.start(launch, None).expect("started").become_task(None).await {
                    self.tasks.push((label, task));
                }
            }
            Act::Report(run, said) => {
                if self.runs.is_empty() {
                    return;
                }
                let run = run % self.runs.len();
                match said {
                    Said::Progress => self.runs[run].report.progress(Some("on".to_owned()), json("{}")),
                    Said::Checkpoint => {
                        let _ = self.runs[run].report.checkpoint(json("1")).await;
                    }
                    Said::Ask => {
                        let _ = self.runs[run].report.ask(vec![question("q")]).await;
                    }
                    Said::Park => self.end(run, asked(&["p"], "1")),
                    Said::Finish => self.end(run, result("{}")),
                    Said::Lost => self.end(run, Ending::Lost { message: "lost".to_owned() }),
                    Said::PutBack => {
                        let pause = Duration::from_secs(1);
                        self.end(run, Ending::PutBack { pause, message: "elsewhere".to_owned() });
                    }
                }
            }
            Act::Answer(node, task) => self.answer(node, task).await,
            Act::Cancel(node, task) => {
                if let Some(task) = self.pick(task) {
                    let owner = Owner::local();
                    match self.nodes[node].engine.cancel(&owner, task).await {
                        Ok(_) => self.cancelled.push(task),
                        Err(EngineError::Terminal(_) | EngineError::Store(_)) => {}
                        Err(other) => panic!("{other}"),
                    }
                }
            }
            Act::Away(node) => self.nodes[node].store.away.store(true, Ordering::SeqCst),
            Act::Back(node) => self.nodes[node].store.away.store(false, Ordering::SeqCst),
            Act::Wait(millis) => sleep(Duration::from_millis(millis)).await,
        }
        settle().await;
        self.collect();
    }

    async fn answer(&self, node: usize, task: usize) {
        let Some(id) = self.pick(task) else { return };
        let Ok(task) = self.nodes[node].engine.get(&Owner::local(), id).await else { return };
        let answers = task.inputs.open().map(|asked| (asked.key.clone(), json("{}"))).collect();
        let _ = self.nodes[node].engine.answer(&Owner::local(), id, answers).await;
    }

    fn pick(&self, task: usize) -> Option<TaskId> {
        (!self.tasks.is_empty()).then(|| self.tasks[task % self.tasks.len()].1.id)
    }

    fn end(&mut self, run: usize, ending: Ending) {
        let run = self.runs.swap_remove(run);
        // The run may have been stopped.
        let _ = run.end.send(ending);
    }

    /// Everybody is back, every question is answered, every run ends.
    async fn come_to_rest(&mut self) {
        for node in &self.nodes {
            node.store.away.store(false, Ordering::SeqCst);
        }
        for _ in 0..20 {
            sleep(Duration::from_secs(20)).await;
            self.collect();
            while !self.runs.is_empty() {
                self.end(0, result("{}"));
            }
            for task in 0..self.tasks.len() {
                self.answer(0, task).await;
            }
        }
    }

    async fn check(&self) {
        let store = &self.nodes[0].store;
        for (label, created) in &self.tasks {
            let task = store.get(created.id).await.expect("read").expect("what was acknowledged is there");
            assert!(task.status.is_terminal() && task.carrier == Carrier::Nobody, "{task:?}");
            let events = store.events(created.id).await.expect("events");
            let ends: Vec<Status> =
                events.iter().map(|event| event.to).filter(|to| to.is_terminal()).collect();
            assert_eq!(ends, [task.status], "{events:?}");
            if self.cancelled.contains(&created.id) {
                assert_eq!(task.status, Status::Cancelled, "an acknowledged cancel stands");
            }
            let begun = self.begun.get(label).copied().unwrap_or_default();
            if task.class == WorkClass::Live {
                // One run, one more for each round of questions that ended one, and for each that said it did nothing.
                let idle = events.iter().filter(|event| event.why == "put back").count() as u32;
                assert!(begun <= 1 + task.inputs.rounds() + idle, "{begun} runs: {events:?}");
            }
            assert!(task.attempts <= 3, "{task:?}");
        }
        for node in &self.nodes {
            assert_eq!(node.engine.carried(), 0);
        }
        assert_eq!(store.orphans(10).await.expect("read"), []);
        assert_eq!(store.nodes().await.expect("nodes").len(), NODES);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, max_shrink_iters: 400, ..ProptestConfig::default() })]

    #[test]
    fn every_task_ends_exactly_once(acts in proptest::collection::vec(act(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let mut world = World::new().await;
            for act in acts {
                world.act(act).await;
            }
            world.come_to_rest().await;
            world.check().await;
        });
    }
}

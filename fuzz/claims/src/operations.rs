//! Any order of operations on a store: what is final stays so, nobody gets at what is somebody else's, tokens that are stale write
//! nothing, and what the store finds by its indexes is what looking at everything finds.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use arbitrary::{Result, Unstructured};
use taskgate_engine::store::{Kept, KeptTask, Node, StoreError};
use taskgate_engine::{MemoryStore, Store};
use taskgate_task::{NodeId, Owner, Step, Task, TaskId, Timestamp};

use crate::life;
use crate::pieces::now_or_never as get;

/// How many places for tasks there are, and owners: few, so that they meet.
const PLACES: i64 = 4;
const OWNERS: [&str; 3] = ["local", "oauth [\"i\",\"s\",\"\"]", "token s"];

pub fn check(data: &[u8]) {
    let mut world = World::default();
    // Too few bytes are the end of it.
    let _ = world.live(&mut Unstructured::new(data));
    world.look();
}

/// A store, and what is known of each task from what was answered.
struct World {
    store: MemoryStore,
    now: Timestamp,
    known: BTreeMap<i64, Task>,
    nodes: BTreeMap<NodeId, Timestamp>,
    answered: HashMap<(i64, String), usize>,
    made: u8,
}

impl Default for World {
    fn default() -> Self {
        World {
            store: MemoryStore::new().another(),
            now: life::BEGIN,
            known: BTreeMap::new(),
            nodes: BTreeMap::new(),
            answered: HashMap::new(),
            made: 0,
        }
    }
}

/// A store that has seen whatever these bytes say.
pub fn lived(input: &mut Unstructured<'_>) -> MemoryStore {
    let mut world = World::default();
    let _ = world.live(input);
    world.store
}

impl World {
    fn live(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        while !input.is_empty() {
            self.now = self.now.after(Duration::from_millis(*input.choose(&[0, 1, 400, 5_000, 60_000])?));
            match input.int_in_range(0..=9_u8)? {
                0 | 1 => self.create(input)?,
                2 => self.node(input)?,
                3 => self.look(),
                _ => self.apply(input)?,
            }
        }
        Ok(())
    }

    fn create(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        let place = input.int_in_range(1..=PLACES)?;
        // No two tasks of a life have the same secret, even at the same place.
        self.made = self.made.wrapping_add(1);
        let id = TaskId::from_parts(place, [self.made; 16]);
        let owner = Owner::named(input.choose(&OWNERS)?);
        let new = life::new_task(input, id, owner.clone())?;
        let key = new.key.clone();
        let before = key.as_ref().and_then(|key| get(self.store.keyed(&owner, key)).unwrap());
        match get(self.store.create(new)) {
            Ok(task) => {
                assert!(before.is_none() && !self.known.contains_key(&place));
                assert_eq!((task.version, task.fence, &task.owner), (1, 1, &owner));
                self.known.insert(place, task);
                if let Some(key) = &key {
                    assert_eq!(get(self.store.keyed(&owner, key)).unwrap(), Some((id, true)));
                }
            }
            Err(StoreError::KeyTaken { id, same }) => {
                // A key finds its owner's task, and never another's.
                assert_eq!(before, Some((id, same)));
                assert_eq!(self.known[&id.locator()].owner, owner);
            }
            Err(StoreError::IdTaken) => assert!(self.known.contains_key(&place)),
            Err(other) => panic!("{other}"),
        }
        Ok(())
    }

    fn node(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        let id = NodeId::from_number(input.int_in_range(1..=3_i64)?);
        let until = self.now.after(Duration::from_secs(15));
        match input.int_in_range(0..=3_u8)? {
            0 => {
                let node = Node { id, name: "n".to_owned(), joined_at: self.now, lease_until: until };
                get(self.store.join(node)).unwrap();
                self.nodes.insert(id, until);
            }
            1 => {
                let is_known = self.nodes.get_mut(&id).map(|lease| *lease = until).is_some();
                assert_eq!(get(self.store.renew(id, until)).unwrap(), is_known);
            }
            2 => {
                get(self.store.leave(id)).unwrap();
                self.nodes.remove(&id);
            }
            _ => {
                let is_dead = self.nodes.get(&id).is_some_and(|lease| *lease <= self.now);
                assert_eq!(
                    get(self.store.bury(id, self.now)).unwrap(),
                    is_dead,
                    "a node whose lease lasts is alive"
                );
                self.nodes.retain(|node, _| !is_dead || *node != id);
            }
        }
        Ok(())
    }

    fn apply(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        let place = input.int_in_range(1..=PLACES)?;
        let step = life::step(input)?;
        let Some(before) = self.known.get(&place).cloned() else { return Ok(()) };
        if input.ratio(1_u8, 16_u8)? {
            // The place of a task without its secret opens nothing.
            let forged = TaskId::from_parts(place, [0; 16]);
            assert!(matches!(get(self.store.apply(forged, step, self.now)), Err(StoreError::NotFound)));
            assert_eq!(get(self.store.get(forged)).unwrap(), None);
            return Ok(());
        }
        let events = get(self.store.events(before.id)).unwrap();
        match get(self.store.apply(before.id, step.clone(), self.now)) {
            Ok(change) if change.delete => {
                assert!(before.status.is_terminal(), "what has not ended is never deleted");
                assert_eq!(get(self.store.get(before.id)).unwrap(), None);
                assert!(get(self.store.events(before.id)).unwrap().is_empty());
                self.known.remove(&place);
                self.answered.retain(|(task, _), _| *task != place);
            }
            Ok(change) => {
                let after = get(self.store.get(before.id)).unwrap().unwrap();
                self.moved(&before, &after, &step);
                for (key, _) in &change.answered {
                    let count = self.answered.entry((place, key.clone())).or_default();
                    *count += 1;
                    assert_eq!(*count, 1, "{key:?} was answered twice");
                }
                if change.write {
                    assert_eq!((&after, after.version), (&change.task, before.version + 1));
                } else {
                    assert_eq!(after, before);
                }
                let told = get(self.store.events(before.id)).unwrap();
                assert_eq!(told.len(), events.len() + usize::from(change.write && change.event.is_some()));
                assert!(told.starts_with(&events), "what has happened stays");
                self.known.insert(place, after);
            }
            Err(StoreError::Refused(_)) => {
                assert_eq!(get(self.store.get(before.id)).unwrap().as_ref(), Some(&before));
                assert_eq!(get(self.store.events(before.id)).unwrap(), events);
            }
            Err(other) => panic!("{other}"),
        }
        Ok(())
    }

    fn moved(&self, before: &Task, after: &Task, step: &Step) {
        assert!(after.version >= before.version && after.fence >= before.fence);
        assert!(after.updated_at >= before.updated_at);
        assert_eq!((&after.owner, after.id, after.created_at), (&before.owner, before.id, before.created_at));
        if let Some(fence) = life::fence_of(step) {
            assert_eq!(fence, before.fence, "a stale token wrote");
            // What nobody can begin fails without having been begun.
            let is_carried = before.carrier.node().is_some() || matches!(step, Step::Fail { .. });
            assert!(is_carried, "nobody carries it, and yet somebody wrote");
        }
        if before.status.is_terminal() {
            assert_eq!(after.status, before.status, "what has ended has ended");
            assert_eq!(
                (&after.outcome, after.failure, after.ended_at),
                (&before.outcome, before.failure, before.ended_at)
            );
        }
        // Keys of questions are never used again, and an answer stays.
        for (asked, now) in before.inputs.all().iter().zip(after.inputs.all()) {
            assert_eq!(asked.key, now.key);
            assert!(asked.answer.is_none() || asked.answer == now.answer);
        }
        let mut keys: Vec<&str> = after.inputs.all().iter().map(|asked| asked.key.as_str()).collect();
        keys.sort_unstable();
        assert!(keys.windows(2).all(|pair| pair[0] != pair[1]), "{keys:?}");
    }

    /// Everything the store tells is what is known.
    fn look(&self) {
        let dumped: Vec<KeptTask> = get(self.store.dump(None, 100))
            .unwrap()
            .into_iter()
            .filter_map(|kept| if let Kept::Task(kept) = kept { Some(*kept) } else { None })
            .collect();
        assert_eq!(
            dumped.iter().map(|kept| &kept.task).collect::<Vec<_>>(),
            self.known.values().collect::<Vec<_>>()
        );
        for kept in &dumped {
            assert_eq!(kept.flaws(), Vec::<String>::new(), "{:?}", kept.task);
        }
        for owner in OWNERS.map(Owner::named) {
            let mut listed = Vec::new();
            let mut after = None;
            loop {
                let page = get(self.store.list(&owner, after, 1)).unwrap();
                assert!(page.tasks.iter().all(|task| task.owner == owner));
                listed.extend(page.tasks.iter().map(|task| task.id));
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
            let mine = self.known.values().filter(|task| task.owner == owner);
            assert_eq!(listed, mine.clone().map(|task| task.id).collect::<Vec<_>>());
            let tally = get(self.store.tally(Some(&owner))).unwrap();
            assert_eq!(tally.stored(), mine.clone().count() as u64);
            assert_eq!(tally.open(), mine.filter(|task| !task.status.is_terminal()).count() as u64);
        }
        let mut due: Vec<(Timestamp, TaskId)> =
            self.known.values().map(|task| (task.due_at(), task.id)).collect();
        due.retain(|(at, _)| *at <= self.now);
        due.sort();
        assert_eq!(
            get(self.store.due(self.now, 100)).unwrap(),
            due.into_iter().map(|(_, id)| id).collect::<Vec<_>>()
        );
        let ids = |tasks: Vec<Task>| {
            let mut ids: Vec<TaskId> = tasks.iter().map(|task| task.id).collect();
            ids.sort();
            ids
        };
        let which = |filter: &dyn Fn(&Task) -> bool| {
            ids(self.known.values().filter(|task| filter(task)).cloned().collect())
        };
        let ready = |task: &Task| task.carrier.ready_at().is_some_and(|at| at <= self.now);
        assert_eq!(ids(get(self.store.ready(self.now, 100)).unwrap()), which(&ready));
        let is_orphan = |task: &Task| task.carrier.node().is_some_and(|node| !self.nodes.contains_key(&node));
        assert_eq!(ids(get(self.store.orphans(100)).unwrap()), which(&is_orphan));
        for node in (1..=3).map(NodeId::from_number) {
            let carried = get(self.store.carried(node, 0, 100)).unwrap();
            assert_eq!(ids(carried), which(&|task| task.carrier.node() == Some(node)));
        }
    }
}

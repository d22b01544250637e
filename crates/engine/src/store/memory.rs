use std::collections::{BTreeMap, BTreeSet, HashMap, btree_map::Entry};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use futures_util::future::ready;
use parking_lot::Mutex;
use taskgate_task::{
    Change, Event, IdempotencyKey, NewTask, NodeId, Owner, Payload, Step, Task, TaskId, Timestamp,
};
use tokio::sync::mpsc;

use super::{
    DUMP_SIZE, Heard, Kept, KeptSecret, KeptTask, Node, Page, Store, StoreError, Stored, Tally, check_names,
    creation, is_work_wanted, spare,
};
use crate::{Clock, Feed, News, SystemClock};

/// Tasks in memory: for tests, and for those who say that a restart may forget everything.
///
/// It obeys the same contract as the stores on disk, except that nothing survives the process. Clones share
/// the tasks.
#[derive(Debug, Clone, Default)]
pub struct MemoryStore {
    tables: Arc<Mutex<Tables>>,
    feed: Feed,
    /// Which of the nodes that share the tables this one is; 0 if there can be no other.
    number: usize,
    time: Time,
}

/// The clock of a store, for those that are shown.
#[derive(Clone)]
struct Time(Arc<dyn Clock>);

impl Default for Time {
    fn default() -> Self {
        Time(Arc::new(SystemClock))
    }
}

impl std::fmt::Debug for Time {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Time")
    }
}

#[derive(Debug, Default)]
struct Tables {
    tasks: BTreeMap<i64, KeptTask>,
    due: BTreeSet<(Timestamp, i64)>,
    ready: BTreeSet<(Timestamp, i64)>,
    carried: BTreeSet<(NodeId, i64)>,
    keys: HashMap<(Owner, String, String), (TaskId, [u8; 32])>,
    nodes: BTreeMap<NodeId, Node>,
    secrets: HashMap<String, Vec<u8>>,
    sharers: usize,
    listeners: Vec<(usize, mpsc::UnboundedSender<Heard>)>,
}

impl MemoryStore {
    /// An empty store of one node.
    pub fn new() -> Self {
        MemoryStore::default()
    }

    /// An empty store that several nodes share, for tests of that; see [`MemoryStore::another`].
    pub fn shared() -> Self {
        MemoryStore::default().another()
    }

    /// An empty store of one node whose time is this clock's, for tests that hold time still.
    pub fn timed_by(clock: impl Clock) -> Self {
        MemoryStore { time: Time(Arc::new(clock)), ..MemoryStore::default() }
    }

    /// The same tables as another node sees them: with a feed of its own, and told of what the others do.
    pub fn another(&self) -> Self {
        let mut tables = self.tables.lock();
        tables.sharers += 1;
        let (time, number) = (self.time.clone(), tables.sharers);
        MemoryStore { tables: self.tables.clone(), feed: Feed::new(), number, time }
    }

    fn create_now(&self, new: NewTask) -> Result<Task, StoreError> {
        let mut guard = self.tables.lock();
        let tables = &mut *guard;
        let task = Task::create(&new);
        let events = vec![creation(&task)];
        tables.insert(KeptTask { task: task.clone(), work: Some(new.work), key: new.key, events })?;
        // News must go out in the order of the writes, so the lock is still held here and below.
        self.tell(tables, News::Changed(Arc::new(task.clone())));
        Ok(task)
    }

    fn apply_now(&self, id: TaskId, step: Step, now: Timestamp) -> Result<Change, StoreError> {
        let mut guard = self.tables.lock();
        let tables = &mut *guard;
        let kept = find_mut(&mut tables.tasks, id).ok_or(StoreError::NotFound)?;
        let before = kept.task.clone();
        let mut change = before.step(step, now)?;
        if change.delete {
            spare(&mut change.task);
            tables.remove(&before);
            self.tell(tables, News::Deleted(id));
        } else if change.write {
            kept.task = change.task.clone();
            if !is_work_wanted(&kept.task) {
                kept.work = None;
            }
            kept.events.extend(change.event.clone());
            tables.forget(&before);
            tables.index(&change.task);
            self.tell(tables, News::Changed(Arc::new(change.task.clone())));
        }
        Ok(change)
    }

    fn load_now(&self, all: Vec<Kept>) -> Result<(), StoreError> {
        let mut guard = self.tables.lock();
        let tables = &mut *guard;
        let (mut loaded, mut secrets) = (Vec::new(), Vec::new());
        for kept in all {
            match kept {
                Kept::Secret(KeptSecret { name, value }) => secrets.push((name, value)),
                Kept::Task(kept) => {
                    let task = kept.task.clone();
                    if let Err(taken) = tables.insert(*kept) {
                        loaded.iter().for_each(|task| tables.remove(task));
                        return Err(taken);
                    }
                    loaded.push(task);
                }
            }
        }
        tables.secrets.extend(secrets);
        Ok(())
    }

    fn tell(&self, tables: &mut Tables, news: News) {
        self.feed.publish(&news);
        let locator = news.id().locator();
        tables.listeners.retain(|(number, listener)| {
            *number == self.number || listener.send(Heard::Changed(vec![locator])).is_ok()
        });
    }

    fn read<T>(&self, id: TaskId, read: impl FnOnce(&KeptTask) -> T) -> Option<T> {
        let tables = self.tables.lock();
        tables.tasks.get(&id.locator()).filter(|kept| id.has_secret(&kept.task.id.secret())).map(read)
    }
}

impl Tables {
    fn insert(&mut self, kept: KeptTask) -> Result<(), StoreError> {
        check_names(&kept.task.owner, kept.key.as_ref())?;
        let (id, key) =
            (kept.task.id, kept.key.as_ref().map(|key| (scope(&kept.task.owner, key), key.digest)));
        if let Some((scope, digest)) = &key
            && let Some((id, other)) = self.keys.get(scope)
        {
            return Err(StoreError::KeyTaken { id: *id, same: other == digest });
        }
        let Entry::Vacant(place) = self.tasks.entry(id.locator()) else {
            return Err(StoreError::IdTaken);
        };
        let task = place.insert(kept).task.clone();
        self.index(&task);
        self.keys.extend(key.map(|(scope, digest)| (scope, (id, digest))));
        Ok(())
    }

    fn remove(&mut self, task: &Task) {
        self.forget(task);
        if let Some(KeptTask { key: Some(key), .. }) = self.tasks.remove(&task.id.locator()) {
            self.keys.remove(&scope(&task.owner, &key));
        }
    }

    fn index(&mut self, task: &Task) {
        let locator = task.id.locator();
        self.due.insert((task.due_at(), locator));
        self.ready.extend(task.carrier.ready_at().map(|at| (at, locator)));
        self.carried.extend(task.carrier.node().map(|node| (node, locator)));
    }

    fn forget(&mut self, task: &Task) {
        let locator = task.id.locator();
        self.due.remove(&(task.due_at(), locator));
        if let Some(at) = task.carrier.ready_at() {
            self.ready.remove(&(at, locator));
        }
        if let Some(node) = task.carrier.node() {
            self.carried.remove(&(node, locator));
        }
    }

    fn records<'a>(&self, locators: impl Iterator<Item = &'a i64>) -> Vec<Task> {
        locators.filter_map(|locator| self.tasks.get(locator)).map(|kept| kept.task.clone()).collect()
    }
}

impl Store for MemoryStore {
    fn clock(&self) -> Arc<dyn Clock> {
        self.time.0.clone()
    }

    fn create(&self, new: NewTask) -> Stored<Task> {
        now(self.create_now(new))
    }

    fn apply(&self, id: TaskId, step: Step, at: Timestamp) -> Stored<Change> {
        now(self.apply_now(id, step, at))
    }

    fn get(&self, id: TaskId) -> Stored<Option<Task>> {
        now(Ok(self.read(id, |kept| kept.task.clone())))
    }

    fn work(&self, id: TaskId) -> Stored<Option<Payload>> {
        now(Ok(self.read(id, |kept| kept.work.clone()).flatten()))
    }

    fn keyed(&self, owner: &Owner, key: &IdempotencyKey) -> Stored<Option<(TaskId, bool)>> {
        let tables = self.tables.lock();
        let kept = tables.keys.get(&scope(owner, key));
        now(Ok(kept.map(|(id, digest)| (*id, *digest == key.digest))))
    }

    fn list(&self, owner: &Owner, after: Option<i64>, limit: usize) -> Stored<Page> {
        let tables = self.tables.lock();
        let mine = tables.tasks.range((Excluded(after.unwrap_or(0)), Unbounded));
        let mine = mine.map(|(_, kept)| &kept.task).filter(|task| task.owner == *owner);
        now(Ok(Page::of(mine.take(limit.saturating_add(1)).map(spared).collect(), limit)))
    }

    fn all(&self, after: Option<i64>, limit: usize) -> Stored<Page> {
        let tables = self.tables.lock();
        let all = tables.tasks.range((Excluded(after.unwrap_or(0)), Unbounded)).map(|(_, kept)| &kept.task);
        now(Ok(Page::of(all.take(limit.saturating_add(1)).map(spared).collect(), limit)))
    }

    fn tally(&self, owner: Option<&Owner>) -> Stored<Tally> {
        let tables = self.tables.lock();
        let mut tally = Tally::default();
        for kept in tables.tasks.values().filter(|kept| owner.is_none_or(|owner| kept.task.owner == *owner)) {
            match tally.by_status.iter_mut().find(|(status, _)| *status == kept.task.status) {
                Some((_, count)) => *count += 1,
                None => tally.by_status.push((kept.task.status, 1)),
            }
            let outcome = kept.task.outcome.as_ref().map(taskgate_task::Outcome::body);
            let long = [kept.work.as_ref(), kept.task.checkpoint.as_ref(), outcome];
            tally.bytes += long.iter().flatten().map(|text| text.as_str().len() as u64).sum::<u64>();
        }
        now(Ok(tally))
    }

    fn due(&self, at: Timestamp, limit: usize) -> Stored<Vec<TaskId>> {
        let tables = self.tables.lock();
        let due = tables.due.iter().take_while(|(due, _)| *due <= at).take(limit);
        now(Ok(due.filter_map(|(_, locator)| tables.tasks.get(locator)).map(|kept| kept.task.id).collect()))
    }

    fn ready(&self, at: Timestamp, limit: usize) -> Stored<Vec<Task>> {
        let tables = self.tables.lock();
        let ready = tables.ready.iter().take_while(|(ready, _)| *ready <= at).take(limit);
        now(Ok(tables.records(ready.map(|(_, locator)| locator)).iter().map(spared).collect()))
    }

    fn orphans(&self, limit: usize) -> Stored<Vec<Task>> {
        let tables = self.tables.lock();
        let orphans = tables.carried.iter().filter(|(node, _)| !tables.nodes.contains_key(node)).take(limit);
        now(Ok(tables.records(orphans.map(|(_, locator)| locator)).iter().map(spared).collect()))
    }

    fn carried(&self, node: NodeId, after: i64, limit: usize) -> Stored<Vec<Task>> {
        let tables = self.tables.lock();
        let carried = tables.carried.range((Excluded((node, after)), Unbounded));
        let carried = carried.take_while(|(carrier, _)| *carrier == node).take(limit);
        now(Ok(tables.records(carried.map(|(_, locator)| locator)).iter().map(spared).collect()))
    }

    fn versions(&self, ids: Vec<TaskId>) -> Stored<Vec<(TaskId, u64)>> {
        let versions = ids.into_iter().filter_map(|id| Some((id, self.read(id, |kept| kept.task.version)?)));
        now(Ok(versions.collect()))
    }

    fn events(&self, id: TaskId) -> Stored<Vec<Event>> {
        now(Ok(self.read(id, |kept| kept.events.clone()).unwrap_or_default()))
    }

    fn dump(&self, after: Option<i64>, limit: usize) -> Stored<Vec<Kept>> {
        let tables = self.tables.lock();
        let secrets = tables.secrets.iter().filter(|_| after.is_none());
        let secret =
            |(name, value): (&String, &Vec<u8>)| KeptSecret { name: name.clone(), value: value.clone() };
        let mut all: Vec<Kept> = secrets.map(secret).map(Kept::Secret).collect();
        let mut weight = 0;
        for (_, kept) in tables.tasks.range((Excluded(after.unwrap_or(0)), Unbounded)).take(limit) {
            weight += kept.weight();
            all.push(Kept::Task(Box::new(kept.clone())));
            if weight >= DUMP_SIZE {
                break;
            }
        }
        now(Ok(all))
    }

    fn load(&self, kept: Vec<Kept>) -> Stored<()> {
        now(self.load_now(kept))
    }

    fn rewrite(&self, kept: Vec<KeptTask>) -> Stored<usize> {
        let mut tables = self.tables.lock();
        let mut count = 0;
        for fresh in kept {
            let id = fresh.task.id;
            if let Some(old) = find_mut(&mut tables.tasks, id)
                && old.task.version == fresh.task.version
            {
                (old.task, old.work) = (fresh.task, fresh.work);
                count += 1;
            }
        }
        now(Ok(count))
    }

    fn keep(&self, name: &str, fresh: Vec<u8>) -> Stored<Vec<u8>> {
        now(Ok(self.tables.lock().secrets.entry(name.to_owned()).or_insert(fresh).clone()))
    }

    fn join(&self, node: Node) -> Stored<()> {
        let mut tables = self.tables.lock();
        if self.number == 0 {
            tables.nodes.clear();
        }
        tables.nodes.insert(node.id, node);
        now(Ok(()))
    }

    fn renew(&self, node: NodeId, until: Timestamp) -> Stored<bool> {
        let mut tables = self.tables.lock();
        let known = tables.nodes.get_mut(&node).map(|node| node.lease_until = until);
        now(Ok(known.is_some()))
    }

    fn leave(&self, node: NodeId) -> Stored<()> {
        self.tables.lock().nodes.remove(&node);
        now(Ok(()))
    }

    fn bury(&self, node: NodeId, at: Timestamp) -> Stored<bool> {
        let mut tables = self.tables.lock();
        let dead = tables.nodes.get(&node).is_some_and(|node| node.lease_until <= at);
        if dead {
            tables.nodes.remove(&node);
        }
        now(Ok(dead))
    }

    fn nodes(&self) -> Stored<Vec<Node>> {
        now(Ok(self.tables.lock().nodes.values().cloned().collect()))
    }

    fn feed(&self) -> &Feed {
        &self.feed
    }

    fn others(&self) -> Option<mpsc::UnboundedReceiver<Heard>> {
        (self.number > 0).then(|| {
            let (listener, heard) = mpsc::unbounded_channel();
            self.tables.lock().listeners.push((self.number, listener));
            heard
        })
    }
}

fn now<T: Send + 'static>(done: Result<T, StoreError>) -> Stored<T> {
    Box::pin(ready(done))
}

fn scope(owner: &Owner, key: &IdempotencyKey) -> (Owner, String, String) {
    (owner.clone(), key.tool.clone(), key.key.clone())
}

fn find_mut(tasks: &mut BTreeMap<i64, KeptTask>, id: TaskId) -> Option<&mut KeptTask> {
    tasks.get_mut(&id.locator()).filter(|kept| id.has_secret(&kept.task.id.secret()))
}

fn spared(task: &Task) -> Task {
    let mut task = task.clone();
    spare(&mut task);
    task
}

use std::collections::{BTreeMap, BTreeSet, HashMap, btree_map::Entry};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use futures_util::future::{BoxFuture, ready};
use parking_lot::Mutex;
use taskgate_task::{Change, Event, NewTask, Outcome, Owner, Payload, Step, Task, TaskId, Timestamp};

use super::{Page, Store, StoreError, creation};
use crate::{Feed, News};

/// Tasks in memory: for tests, and for those who say that a restart may forget everything.
///
/// It obeys the same contract as the stores on disk, except that nothing survives the process. Clones share
/// the tasks.
#[derive(Debug, Clone, Default)]
pub struct MemoryStore(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    tables: Mutex<Tables>,
    feed: Feed,
}

#[derive(Debug, Default)]
struct Tables {
    tasks: BTreeMap<i64, Kept>,
    due: BTreeSet<(Timestamp, i64)>,
    secrets: HashMap<String, [u8; 32]>,
}

#[derive(Debug)]
struct Kept {
    task: Task,
    work: Option<Payload>,
    events: Vec<Event>,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        MemoryStore::default()
    }

    fn create_now(&self, new: NewTask) -> Result<Task, StoreError> {
        let mut tables = self.0.tables.lock();
        let task = Task::create(&new);
        let Entry::Vacant(place) = tables.tasks.entry(task.id.locator()) else {
            return Err(StoreError::IdTaken);
        };
        place.insert(Kept { task: task.clone(), work: Some(new.work), events: vec![creation(&task)] });
        tables.due.insert((task.due_at(), task.id.locator()));
        // News must go out in the order of the writes, so the lock is still held here and below.
        self.0.feed.publish(&News::Changed(Arc::new(task.clone())));
        Ok(task)
    }

    fn apply_now(&self, id: TaskId, step: Step, now: Timestamp) -> Result<Change, StoreError> {
        let mut guard = self.0.tables.lock();
        let tables = &mut *guard;
        let kept = find_mut(&mut tables.tasks, id).ok_or(StoreError::NotFound)?;
        let due = (kept.task.due_at(), id.locator());
        let change = kept.task.step(step, now)?;
        if change.delete {
            tables.tasks.remove(&id.locator());
            tables.due.remove(&due);
            self.0.feed.publish(&News::Deleted(id));
        } else if change.write {
            kept.task = change.task.clone();
            if kept.task.status.is_terminal() {
                kept.work = None;
            }
            kept.events.extend(change.event.clone());
            tables.due.remove(&due);
            tables.due.insert((change.task.due_at(), id.locator()));
            self.0.feed.publish(&News::Changed(Arc::new(change.task.clone())));
        }
        Ok(change)
    }

    fn read<T>(&self, id: TaskId, read: impl FnOnce(&Kept) -> T) -> Option<T> {
        let tables = self.0.tables.lock();
        tables.tasks.get(&id.locator()).filter(|kept| id.has_secret(&kept.task.id.secret())).map(read)
    }
}

impl Store for MemoryStore {
    fn create(&self, new: NewTask) -> BoxFuture<'static, Result<Task, StoreError>> {
        Box::pin(ready(self.create_now(new)))
    }

    fn apply(
        &self,
        id: TaskId,
        step: Step,
        now: Timestamp,
    ) -> BoxFuture<'static, Result<Change, StoreError>> {
        Box::pin(ready(self.apply_now(id, step, now)))
    }

    fn get(&self, id: TaskId) -> Result<Option<Task>, StoreError> {
        Ok(self.read(id, |kept| kept.task.clone()))
    }

    fn work(&self, id: TaskId) -> Result<Option<Payload>, StoreError> {
        Ok(self.read(id, |kept| kept.work.clone()).flatten())
    }

    fn list(&self, owner: &Owner, after: Option<i64>, limit: usize) -> Result<Page, StoreError> {
        let tables = self.0.tables.lock();
        let mine = tables.tasks.range((Excluded(after.unwrap_or(0)), Unbounded));
        let mine = mine.map(|(_, kept)| &kept.task).filter(|task| task.owner == *owner);
        let mut tasks: Vec<Task> = mine.take(limit.saturating_add(1)).map(without_body).collect();
        let more = tasks.len() > limit;
        tasks.truncate(limit);
        Ok(Page { next: if more { tasks.last().map(|task| task.id.locator()) } else { None }, tasks })
    }

    fn due(&self, now: Timestamp, limit: usize) -> Result<Vec<TaskId>, StoreError> {
        let tables = self.0.tables.lock();
        let due = tables.due.iter().take_while(|(at, _)| *at <= now).take(limit);
        Ok(due.filter_map(|(_, locator)| tables.tasks.get(locator)).map(|kept| kept.task.id).collect())
    }

    fn open(&self, after: i64, limit: usize) -> Result<Vec<Task>, StoreError> {
        let tables = self.0.tables.lock();
        let open = tables.tasks.range((Excluded(after), Unbounded)).map(|(_, kept)| &kept.task);
        Ok(open.filter(|task| !task.status.is_terminal()).take(limit).cloned().collect())
    }

    fn events(&self, id: TaskId) -> Result<Vec<Event>, StoreError> {
        Ok(self.read(id, |kept| kept.events.clone()).unwrap_or_default())
    }

    fn secret(&self, name: &str) -> Result<[u8; 32], StoreError> {
        let mut fresh = [0; 32];
        getrandom::fill(&mut fresh).map_err(|error| StoreError::Failed(error.to_string()))?;
        Ok(*self.0.tables.lock().secrets.entry(name.to_owned()).or_insert(fresh))
    }

    fn feed(&self) -> &Feed {
        &self.0.feed
    }
}

fn find_mut(tasks: &mut BTreeMap<i64, Kept>, id: TaskId) -> Option<&mut Kept> {
    tasks.get_mut(&id.locator()).filter(|kept| id.has_secret(&kept.task.id.secret()))
}

/// Every store leaves the bodies out of its lists, so that none of its callers comes to rely on them.
fn without_body(task: &Task) -> Task {
    let mut task = task.clone();
    match &mut task.outcome {
        Some(Outcome::Result { body, .. } | Outcome::Error { body, .. }) => *body = Payload::null(),
        None => {}
    }
    task
}

use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};

use taskgate_task::{Change, Event, NewTask, Step, Task, TaskId, Timestamp};
use tokio_postgres::Row;

use super::columns::{Creates, Events, Updates};
use super::job::{Done, Job, What};
use crate::StoreError;
use crate::store::code::Bodies;
use crate::store::postgres::row::{self, Cell};
use crate::store::{check_names, creation, is_work_wanted, spare};

/// Owner, tool and key.
type Scope<'a> = (&'a str, &'a str, &'a str);

/// The records a transaction has locked, and what its writes make of them, one after the other in memory.
#[derive(Default)]
pub(super) struct Plan<'a> {
    places: BTreeMap<i64, Place<'a>>,
    keys: HashMap<Scope<'a>, (TaskId, [u8; 32])>,
}

/// What is, or will be, at one locator.
#[derive(Default)]
struct Place<'a> {
    task: Option<Task>,
    /// Why the record that is there cannot be read.
    damage: Option<StoreError>,
    /// Whether the database holds a record here that is to go.
    erase: bool,
    /// What it was made from, if that was in this transaction.
    new: Option<&'a NewTask>,
    is_changed: bool,
    events: Vec<Event>,
}

/// The statements' parameters.
#[derive(Default)]
pub(super) struct Writes<'a> {
    pub(super) erased: Vec<i64>,
    pub(super) creates: Creates<'a>,
    pub(super) updates: Updates<'a>,
    pub(super) events: Events<'a>,
}

impl<'a> Plan<'a> {
    /// The records as they are locked, and the keys of `jobs` that are taken: rows of `task_lock.sql` and `task_keyed.sql`,
    /// the latter with the number of their creation among those that have a key.
    pub(super) fn new(jobs: &'a [Job], locked: &[Row], taken: &[Row]) -> Result<Self, StoreError> {
        let mut plan = Plan::default();
        for record in locked {
            let locator = Cell { row: record, table: "task", name: "locator" }.int()?;
            let mut place = Place::default();
            match row::task(record, Bodies::Read) {
                Ok(task) => place.task = Some(task),
                Err(error) => place.damage = Some(error),
            }
            plan.places.insert(locator, place);
        }
        let scopes: Vec<Scope<'a>> = jobs.iter().filter_map(Job::scope).collect();
        for row in taken {
            let cell = |name| Cell { row, table: "task", name };
            let number: usize = cell("number").count()?;
            if let Some(scope) = scopes.get(number.wrapping_sub(1)) {
                plan.keys.insert(*scope, (row::id(row)?, cell("key_digest").array()?));
            }
        }
        Ok(plan)
    }

    /// Makes the write, in memory.
    pub(super) fn make(&mut self, job: &'a Job) -> Result<Done, StoreError> {
        match &job.what {
            What::Create { new, .. } => self.create(new).map(Box::new).map(Done::Created),
            What::Apply { id, step, now, .. } => self.apply(*id, step, *now).map(Box::new).map(Done::Changed),
            What::Run { .. } => Err(StoreError::Failed("a statement is about no task".to_owned())),
        }
    }

    fn create(&mut self, new: &'a NewTask) -> Result<Task, StoreError> {
        check_names(&new.owner, new.key.as_ref())?;
        let scope = scope(new);
        if let (Some(scope), Some(key)) = (&scope, &new.key)
            && let Some((id, digest)) = self.keys.get(scope)
            && self.is_there(*id)
        {
            return Err(StoreError::KeyTaken { id: *id, same: *digest == key.digest });
        }
        let place = self.places.entry(new.id.locator()).or_default();
        if place.task.is_some() || place.damage.is_some() {
            return Err(StoreError::IdTaken);
        }
        let task = Task::create(new);
        place.events = vec![creation(&task)];
        place.task = Some(task.clone());
        place.new = Some(new);
        if let (Some(scope), Some(key)) = (scope, &new.key) {
            self.keys.insert(scope, (new.id, key.digest));
        }
        Ok(task)
    }

    /// Whether the task that had a key still has it: it may have been deleted by an earlier write of this transaction.
    fn is_there(&self, id: TaskId) -> bool {
        self.places.get(&id.locator()).is_none_or(|place| match &place.task {
            Some(task) => task.id == id,
            None => place.damage.is_some(),
        })
    }

    fn apply(&mut self, id: TaskId, step: &Step, now: Timestamp) -> Result<Change, StoreError> {
        let place = self.places.get_mut(&id.locator()).ok_or(StoreError::NotFound)?;
        if let Some(damage) = &place.damage {
            return Err(damage.clone());
        }
        let task = place.task.as_ref().filter(|task| id.has_secret(&task.id.secret()));
        let task = task.ok_or(StoreError::NotFound)?;
        // Payloads share their text, so the clone is cheap however much was answered.
        let step = step.clone();
        // The lane serves many tasks; a defect in the rules must not end it because of one of them.
        let mut change = catch_unwind(AssertUnwindSafe(|| task.step(step, now)))
            .map_err(|_| StoreError::Failed("the step panicked".to_owned()))??;
        if change.delete {
            // A record made in this transaction is not in the database yet.
            let erase = place.erase || place.new.is_none();
            *place = Place { erase, ..Place::default() };
            spare(&mut change.task);
        } else if change.write {
            place.task = Some(change.task.clone());
            place.is_changed = true;
            place.events.extend(change.event.clone());
        }
        Ok(change)
    }

    /// What is to be written, in the order of the locators; new records with a key before those without and in the order
    /// of the keys, so that no two nodes wait for each other's keys.
    pub(super) fn writes(&self) -> Result<Writes<'_>, StoreError> {
        let mut writes = Writes::default();
        let mut made = Vec::new();
        for (locator, place) in &self.places {
            if place.erase {
                writes.erased.push(*locator);
            }
            let Some(task) = &place.task else { continue };
            match place.new {
                Some(new) => made.push((task, new)),
                None if place.is_changed => writes.updates.push(task)?,
                None => {}
            }
            for event in &place.events {
                writes.events.push(*locator, event);
            }
        }
        made.sort_by_key(|(_, new)| (new.key.is_none(), scope(new)));
        for (task, new) in made {
            let work = is_work_wanted(task).then_some(&new.work);
            writes.creates.push(task, work, new.key.as_ref())?;
        }
        Ok(writes)
    }
}

impl Writes<'_> {
    pub(super) fn is_empty(&self) -> bool {
        self.erased.is_empty() && self.creates.is_empty() && self.updates.is_empty()
    }
}

impl Job {
    /// The key it creates under.
    fn scope(&self) -> Option<Scope<'_>> {
        match &self.what {
            What::Create { new, .. } => scope(new),
            What::Apply { .. } | What::Run { .. } => None,
        }
    }
}

fn scope(new: &NewTask) -> Option<Scope<'_>> {
    new.key.as_ref().map(|key| (new.owner.as_str(), key.tool.as_str(), key.key.as_str()))
}

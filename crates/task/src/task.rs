use std::time::Duration;

use crate::{Failure, Inputs, Lifetime, Outcome, Owner, Payload, Status, TaskId, Timestamp};

/// What happens to a task when the process that carries its work dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WorkClass {
    /// The work dies with its process; the task fails as interrupted.
    Live,
    /// The work may be run again from the start.
    Repeatable,
}

impl WorkClass {
    /// The word used in stores and configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            WorkClass::Live => "live",
            WorkClass::Repeatable => "repeatable",
        }
    }

    /// Reads [`WorkClass::as_str`] back.
    pub fn from_word(word: &str) -> Option<WorkClass> {
        [WorkClass::Live, WorkClass::Repeatable].into_iter().find(|class| class.as_str() == word)
    }
}

/// What a task is made from.
#[derive(Debug, Clone)]
pub struct NewTask {
    /// A fresh id.
    pub id: TaskId,
    /// Whose it is.
    pub owner: Owner,
    /// Which runner does the work, by its name in the configuration.
    pub runner: String,
    /// What is to be done: the runner's own description, untouched. Kept for as long as the work may have to be started again.
    pub work: Payload,
    /// What happens after a crash.
    pub class: WorkClass,
    /// The granted lifetime.
    pub lifetime: Lifetime,
    /// How often the requestor should look.
    pub poll_interval: Duration,
    /// A first status message.
    pub status_message: Option<String>,
    /// When.
    pub created_at: Timestamp,
}

/// The record of a task: everything but the description of its work, which only a new attempt needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// Its id.
    pub id: TaskId,
    /// Whose it is.
    pub owner: Owner,
    /// Which runner does the work.
    pub runner: String,
    /// What happens after a crash.
    pub class: WorkClass,
    /// Where it stands.
    pub status: Status,
    /// A line for people about where it stands.
    pub status_message: Option<String>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When the requestor-visible state last changed. Reading never changes it.
    pub updated_at: Timestamp,
    /// When it reached a terminal status.
    pub ended_at: Option<Timestamp>,
    /// The granted lifetime.
    pub lifetime: Lifetime,
    /// How often the requestor should look.
    pub poll_interval: Duration,
    /// Counts every written change; lets followers drop what they have already seen.
    pub version: u64,
    /// The fencing token of the current attempt. A write under another token is refused.
    pub fence: u64,
    /// How many times the work was started from the beginning.
    pub attempts: u32,
    /// Questions and answers.
    pub inputs: Inputs,
    /// How the work ended, if it did.
    pub outcome: Option<Outcome>,
    /// Why taskgate ended the task, if it did.
    pub failure: Option<Failure>,
}

impl Task {
    /// The record of a task at its creation: working, first attempt, version 1.
    pub fn create(new: &NewTask) -> Task {
        Task {
            id: new.id,
            owner: new.owner.clone(),
            runner: new.runner.clone(),
            class: new.class,
            status: Status::Working,
            status_message: new.status_message.clone(),
            created_at: new.created_at,
            updated_at: new.created_at,
            ended_at: None,
            lifetime: new.lifetime,
            poll_interval: new.poll_interval,
            version: 1,
            fence: 1,
            attempts: 1,
            inputs: Inputs::default(),
            outcome: None,
            failure: None,
        }
    }

    /// When upkeep must look at this task next: for its run limit or ttl while it runs, to delete it afterwards.
    pub fn due_at(&self) -> Timestamp {
        match self.ended_at {
            Some(ended) => ended.after(self.lifetime.retention),
            None => self.lifetime.next_due(self.created_at),
        }
    }
}

use std::time::Duration;

use crate::{
    Carrier, Failure, Inputs, Lifetime, NodeId, Outcome, Owner, Payload, Status, TaskId, Timestamp, WorkClass,
};

/// How long a checkpoint may be, and all questions and answers of a task together, in bytes: every write of a task may
/// carry them along.
pub const MAX_STATE: usize = 32 << 20;

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
    /// How often the work may be started in all, before it is given up.
    pub max_attempts: u32,
    /// The node that carries the first attempt.
    pub node: NodeId,
    /// Makes a repeated creation find the first one.
    pub key: Option<IdempotencyKey>,
    /// The granted lifetime.
    pub lifetime: Lifetime,
    /// How often the requestor should look.
    pub poll_interval: Duration,
    /// A first status message.
    pub status_message: Option<String>,
    /// What the work has put down already. It is in the first commit, so that no crash parts the task from its work.
    pub checkpoint: Option<Payload>,
    /// When.
    pub created_at: Timestamp,
}

/// What a requestor sends along so that sending the same call again creates nothing new. It is unique for its owner
/// and tool for as long as the task exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey {
    /// The tool that is called.
    pub tool: String,
    /// The requestor's own key.
    pub key: String,
    /// A digest of what was asked for: the same key with another digest is a conflict.
    pub digest: [u8; 32],
}

/// An id that a requestor has given a task, and where it counts. Within its scope it is unique for as long as the task exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenId {
    /// Whose id it is, where the owner alone does not say that: the session of a caller without authorization. Otherwise empty.
    pub scope: String,
    /// The id.
    pub id: String,
}

impl IdempotencyKey {
    /// Tells such ids from keys of calls, which always name a tool.
    const NO_TOOL: &'static str = "";

    /// The key under which a task is found by the id that its requestor has given it. `digest` is what no other call has, so
    /// that an id that is taken is a conflict.
    pub fn of_given_id(given: &GivenId, digest: [u8; 32]) -> Self {
        let key = format!("{}\n{}", given.scope, given.id);
        IdempotencyKey { tool: Self::NO_TOOL.to_owned(), key, digest }
    }

    /// The id that it stands for, if it is such a key.
    pub fn given_id(&self) -> Option<GivenId> {
        GivenId::kept_as(&self.tool, &self.key)
    }
}

impl GivenId {
    /// Reads it from a key as it is kept, if that is one.
    pub fn kept_as(tool: &str, key: &str) -> Option<GivenId> {
        // A session's id has no line break, an id given by a requestor may.
        let (scope, id) = key.split_once('\n').filter(|_| tool == IdempotencyKey::NO_TOOL)?;
        Some(GivenId { scope: scope.to_owned(), id: id.to_owned() })
    }
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
    /// Who carries the current attempt.
    pub carrier: Carrier,
    /// How many times the work was started, counted anew from each checkpoint.
    pub attempts: u32,
    /// How many times it may be started.
    pub max_attempts: u32,
    /// What the work has put down for its next attempt: how far it is, or where it goes on.
    pub checkpoint: Option<Payload>,
    /// Questions and answers.
    pub inputs: Inputs,
    /// How the work ended, if it did.
    pub outcome: Option<Outcome>,
    /// Why taskgate ended the task, if it did.
    pub failure: Option<Failure>,
    /// The id that its requestor has given it (2025-10-20), if it has one besides [`Task::id`].
    pub given_id: Option<GivenId>,
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
            carrier: Carrier::Node(new.node),
            attempts: 1,
            max_attempts: new.max_attempts,
            checkpoint: new.checkpoint.clone(),
            inputs: Inputs::default(),
            outcome: None,
            failure: None,
            given_id: new.key.as_ref().and_then(IdempotencyKey::given_id),
        }
    }

    /// When upkeep must look at this task next: for its run limit or ttl while it runs, to delete it afterwards. A task
    /// whose work is still to be stopped is kept until that is done.
    pub fn due_at(&self) -> Timestamp {
        match (self.ended_at, self.carrier) {
            (Some(ended), Carrier::Nobody) => ended.after(self.lifetime.retention),
            (Some(_), Carrier::Node(_) | Carrier::Ready(_)) => Timestamp::NEVER,
            (None, _) => self.lifetime.next_due(self.created_at),
        }
    }
}

//! A store that keeps account of what this node commits in it: each change once, whoever makes it, and none of other nodes.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::Deserialize;
use taskgate_engine::store::{Heard, Kept, Node, Page};
use taskgate_engine::{Clock, Feed, Store, StoreError, Stored, Tally};
use taskgate_task::{
    Change, Event, IdempotencyKey, NewTask, NodeId, Owner, Payload, Step, Task, TaskId, Timestamp,
};
use taskgate_wire::method;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::line::{Line, locator};
use super::{Asked, Audit};

/// A store, and what is written because of its changes.
pub struct Audited {
    store: Arc<dyn Store>,
    audit: Audit,
    tools: Arc<Tools>,
}

/// The tools of tasks that this node has seen and that have not ended. Records do not have them.
#[derive(Default)]
struct Tools(Mutex<HashMap<TaskId, Option<Arc<str>>>>);

impl Audited {
    /// Keeps account of this store.
    pub fn new(store: Arc<dyn Store>, audit: Audit) -> Audited {
        Audited { store, audit, tools: Arc::default() }
    }
}

impl Tools {
    fn known(&self, id: &TaskId) -> Option<Option<Arc<str>>> {
        self.0.lock().get(id).cloned()
    }

    fn keep(&self, id: TaskId, tool: Option<Arc<str>>) {
        self.0.lock().insert(id, tool);
    }

    fn forget(&self, id: &TaskId) {
        self.0.lock().remove(id);
    }
}

/// The tool that is called by this work, by its upstream's own name.
fn tool_of(work: &Payload) -> Option<Arc<str>> {
    #[derive(Deserialize)]
    struct Work {
        method: String,
        params: Params,
    }
    #[derive(Deserialize)]
    struct Params {
        name: String,
    }
    let work: Work = serde_json::from_str(work.as_str()).ok()?;
    (work.method == method::TOOLS_CALL).then(|| work.params.name.into())
}

/// Sees a change through to its line, although whoever has made it may go away at any moment.
fn see_through<T: Send + 'static>(
    runtime: &Handle,
    moves: impl Future<Output = Result<T, StoreError>> + Send + 'static,
) -> Stored<T> {
    let seen = runtime.spawn(moves);
    Box::pin(async move { seen.await.unwrap_or_else(|broken| Err(StoreError::Failed(broken.to_string()))) })
}

fn moved<'a>(task: &'a Task, event: &'a Event, kind: &'static str, tool: Option<&'a str>) -> Line<'a> {
    Line {
        task: Some(locator(&task.id)),
        given_id: task.given_id.as_ref().map(|given| given.id.as_str()),
        owner: Some(task.owner.as_str()),
        upstream: Some(&task.runner),
        tool,
        who: Some(event.who.as_str()),
        from: event.from.map(taskgate_task::Status::as_str),
        to: Some(event.to.as_str()),
        version: Some(event.version),
        why: Some(event.why.as_str().into()),
        ..Line::at(event.at, kind)
    }
}

impl Store for Audited {
    fn create(&self, new: NewTask) -> Stored<Task> {
        let Ok(runtime) = Handle::try_current() else { return self.store.create(new) };
        let (id, tool, asked) = (new.id, tool_of(&new.work), Asked::now());
        if let Some(asked) = &asked {
            asked.makes_task();
        }
        // Before its first change, which may be on its way before the creation is committed.
        self.tools.keep(id, tool.clone());
        let created = self.store.create(new);
        let (audit, tools) = (self.audit.clone(), self.tools.clone());
        see_through(&runtime, async move {
            let task = match created.await {
                Ok(task) => task,
                Err(error) => {
                    tools.forget(&id);
                    return Err(error);
                }
            };
            let event = Event {
                version: task.version,
                at: task.created_at,
                who: taskgate_task::Who::Requestor,
                from: None,
                to: task.status,
                why: "created".to_owned(),
            };
            let line = moved(&task, &event, "create", tool.as_deref());
            let line = match &asked {
                Some(asked) => asked.say(line),
                None => line,
            };
            // No handle leaves whose line is not on its way to the disk.
            audit.put_and_see(line).await;
            Ok(task)
        })
    }

    fn apply(&self, id: TaskId, step: Step, now: Timestamp) -> Stored<Change> {
        // These never have an event.
        let is_quiet = matches!(step, Step::Report { .. } | Step::Checkpoint { .. });
        let Some(runtime) = Handle::try_current().ok().filter(|_| !is_quiet) else {
            return self.store.apply(id, step, now);
        };
        let (store, audit, tools) = (self.store.clone(), self.audit.clone(), self.tools.clone());
        let known = tools.known(&id);
        // Of what began here, changes are enqueued in the order in which they are made.
        let applied = known.is_some().then(|| store.apply(id, step.clone(), now));
        see_through(&runtime, async move {
            let (tool, applied) = match (known, applied) {
                (Some(tool), Some(applied)) => (tool, applied),
                _ => {
                    // Read first: of a task that has ended nothing says any more what was called.
                    let work = store.work(id).await.ok().flatten();
                    (work.as_ref().and_then(tool_of), store.apply(id, step, now))
                }
            };
            let change = applied.await?;
            if change.delete || change.task.status.is_terminal() {
                tools.forget(&id);
            } else {
                tools.keep(id, tool.clone());
            }
            if let Some(event) = &change.event {
                audit.put(moved(&change.task, event, "transition", tool.as_deref())).await;
            } else if change.delete {
                let task = &change.task;
                audit
                    .put(Line {
                        task: Some(locator(&id)),
                        given_id: task.given_id.as_ref().map(|given| given.id.as_str()),
                        owner: Some(task.owner.as_str()),
                        upstream: Some(&task.runner),
                        from: Some(task.status.as_str()),
                        ..Line::at(now, "delete")
                    })
                    .await;
            }
            Ok(change)
        })
    }

    fn join(&self, node: Node) -> Stored<()> {
        self.audit.is_node(node.id);
        self.store.join(node)
    }

    fn get(&self, id: TaskId) -> Stored<Option<Task>> {
        self.store.get(id)
    }

    fn work(&self, id: TaskId) -> Stored<Option<Payload>> {
        self.store.work(id)
    }

    fn keyed(&self, owner: &Owner, key: &IdempotencyKey) -> Stored<Option<(TaskId, bool)>> {
        self.store.keyed(owner, key)
    }

    fn list(&self, owner: &Owner, after: Option<i64>, limit: usize) -> Stored<Page> {
        self.store.list(owner, after, limit)
    }

    fn all(&self, after: Option<i64>, limit: usize) -> Stored<Page> {
        self.store.all(after, limit)
    }

    fn tally(&self, owner: Option<&Owner>) -> Stored<Tally> {
        self.store.tally(owner)
    }

    fn due(&self, now: Timestamp, limit: usize) -> Stored<Vec<TaskId>> {
        self.store.due(now, limit)
    }

    fn ready(&self, now: Timestamp, limit: usize) -> Stored<Vec<Task>> {
        self.store.ready(now, limit)
    }

    fn orphans(&self, limit: usize) -> Stored<Vec<Task>> {
        self.store.orphans(limit)
    }

    fn carried(&self, node: NodeId, after: i64, limit: usize) -> Stored<Vec<Task>> {
        self.store.carried(node, after, limit)
    }

    fn versions(&self, ids: Vec<TaskId>) -> Stored<Vec<(TaskId, u64)>> {
        self.store.versions(ids)
    }

    fn events(&self, id: TaskId) -> Stored<Vec<Event>> {
        self.store.events(id)
    }

    fn dump(&self, after: Option<i64>, limit: usize) -> Stored<Vec<Kept>> {
        self.store.dump(after, limit)
    }

    fn load(&self, kept: Vec<Kept>) -> Stored<()> {
        self.store.load(kept)
    }

    fn secret(&self, name: &str) -> Stored<[u8; 32]> {
        self.store.secret(name)
    }

    fn renew(&self, node: NodeId, until: Timestamp) -> Stored<bool> {
        self.store.renew(node, until)
    }

    fn leave(&self, node: NodeId) -> Stored<()> {
        self.store.leave(node)
    }

    fn bury(&self, node: NodeId, now: Timestamp) -> Stored<bool> {
        self.store.bury(node, now)
    }

    fn nodes(&self) -> Stored<Vec<Node>> {
        self.store.nodes()
    }

    fn feed(&self) -> &Feed {
        self.store.feed()
    }

    fn others(&self) -> Option<mpsc::UnboundedReceiver<Heard>> {
        self.store.others()
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.store.clock()
    }
}

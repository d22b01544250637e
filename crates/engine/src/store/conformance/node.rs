//! Who carries what, and what becomes of it when they die.

use taskgate_task::{Carrier, Status, Step, TaskId, Timestamp, WorkClass};

use super::sample::{self, NODE, NOW, OTHER, later};
use crate::Store;
use crate::store::Node;

fn node(lease_until: Timestamp) -> Node {
    Node { id: NODE, name: "läuft:1".to_owned(), joined_at: NOW, lease_until }
}

async fn orphans(store: &impl Store) -> Vec<TaskId> {
    let mut ids: Vec<TaskId> = store.orphans(100).await.unwrap().iter().map(|task| task.id).collect();
    ids.sort();
    ids
}

/// A lease is longer after a heartbeat, and over only when it is over; who was buried is told so.
pub async fn a_node_lives_as_long_as_its_lease<S: Store>(make: impl Fn() -> S) {
    let store = make();
    assert!(!store.renew(NODE, later(10)).await.unwrap());
    store.join(node(later(10))).await.unwrap();
    assert_eq!(store.nodes().await.unwrap(), [node(later(10))]);
    assert!(!store.bury(NODE, later(9)).await.unwrap());
    assert!(store.renew(NODE, later(20)).await.unwrap());
    assert_eq!(store.nodes().await.unwrap(), [node(later(20))]);
    assert!(!store.bury(NODE, later(19)).await.unwrap());
    // A late heartbeat is a heartbeat as long as nobody has buried the node.
    assert!(store.renew(NODE, later(21)).await.unwrap());
    assert!(store.bury(NODE, later(21)).await.unwrap());
    assert!(!store.bury(NODE, later(21)).await.unwrap());
    assert!(!store.renew(NODE, later(99)).await.unwrap());
    assert_eq!(store.nodes().await.unwrap(), []);
    store.join(node(later(30))).await.unwrap();
    store.leave(NODE).await.unwrap();
    store.leave(NODE).await.unwrap();
    assert_eq!(store.nodes().await.unwrap(), []);
}

/// What a node carries is orphaned when it is not there: not what waits for answers, and not what has ended.
pub async fn orphans_are_what_dead_nodes_carried<S: Store>(make: impl Fn() -> S) {
    let store = make();
    let orphan = sample::create(&store, sample::new_task()).await.id;
    let asking = sample::create(&store, sample::new_task()).await.id;
    let ask = |resume| Step::Ask { fence: 1, questions: vec![sample::question("q")], resume };
    sample::apply(&store, asking, ask(None), NOW).await;
    let parked = sample::create(&store, sample::new_task()).await.id;
    sample::apply(&store, parked, ask(Some(sample::json("1"))), NOW).await;
    let ended = sample::create(&store, sample::new_task()).await.id;
    sample::apply(&store, ended, sample::finish(), NOW).await;
    assert_eq!(orphans(&store).await, [orphan, asking]);
    assert_eq!(store.orphans(1).await.unwrap().len(), 1);
    let carried = |node, after, limit| {
        let carried = store.carried(node, after, limit);
        async move { carried.await.unwrap().iter().map(|task| task.id).collect::<Vec<_>>() }
    };
    let mine = [orphan, asking];
    assert_eq!(carried(NODE, 0, 10).await, mine);
    assert_eq!(carried(NODE, 0, 1).await, mine[..1]);
    assert_eq!(carried(NODE, mine[0].locator(), 10).await, mine[1..]);
    assert_eq!(carried(OTHER, 0, 10).await, []);
    store.join(node(later(10))).await.unwrap();
    assert_eq!(orphans(&store).await, []);
    store.bury(NODE, later(10)).await.unwrap();
    assert_eq!(orphans(&store).await, [orphan, asking]);
    let found = store.orphans(10).await.unwrap();
    for task in found {
        assert_eq!(task.carrier, Carrier::Node(NODE));
        assert_eq!(store.get(task.id).await.unwrap(), Some(task));
    }
    sample::apply(&store, orphan, sample::lose(1), later(11)).await;
    assert_eq!(orphans(&store).await, [asking]);
}

/// Lost work is ready when its pause is over, earliest first, and no longer when somebody has begun it.
pub async fn lost_work_is_ready_until_it_is_begun<S: Store>(make: impl Fn() -> S) {
    let store = make();
    let lost = |class, at| {
        let mut new = sample::new_task();
        new.class = class;
        let store = &store;
        async move {
            let id = sample::create(store, new).await.id;
            sample::apply(store, id, sample::lose(1), at).await;
            id
        }
    };
    let second = lost(WorkClass::Repeatable, NOW).await;
    let third = lost(WorkClass::Resumable, later(1)).await;
    let first = lost(WorkClass::External, later(2)).await;
    let failed = lost(WorkClass::Live, NOW).await;
    assert_eq!(store.get(failed).await.unwrap().unwrap().status, Status::Failed);
    let ready = |at, limit| {
        let ready = store.ready(at, limit);
        async move { ready.await.unwrap().iter().map(|task| task.id).collect::<Vec<_>>() }
    };
    assert_eq!(ready(later(1), 10).await, []);
    assert_eq!(ready(later(499), 10).await, [first]);
    assert_eq!(ready(later(9999), 10).await, [first, second, third]);
    assert_eq!(ready(later(9999), 2).await, [first, second]);
    sample::refused(&store, second, sample::begin(), later(499)).await;
    let begun = sample::apply(&store, second, sample::begin(), later(500)).await.task;
    assert_eq!((begun.carrier, begun.fence), (Carrier::Node(OTHER), 3));
    sample::refused(&store, second, sample::begin(), later(500)).await;
    assert_eq!(ready(later(9999), 10).await, [first, third]);
    assert_eq!(orphans(&store).await, [second]);
}

/// Work that goes on elsewhere is stopped after its task has ended, and what that needs is kept until then.
pub async fn ended_work_is_kept_until_it_is_stopped<S: Store>(make: impl Fn() -> S) {
    let store = make();
    let mut new = sample::new_task();
    new.class = WorkClass::External;
    let id = sample::create(&store, new.clone()).await.id;
    let state = sample::json("{ \"job\" : 1.0 }");
    sample::apply(&store, id, Step::Checkpoint { fence: 1, state: state.clone() }, later(1)).await;
    let cancelled = sample::apply(&store, id, Step::Cancel, later(2)).await.task;
    assert_eq!(cancelled.checkpoint, Some(state));
    assert_eq!(store.work(id).await.unwrap(), Some(new.work));
    assert_eq!(store.due(later(999_999), 10).await.unwrap(), []);
    assert_eq!(orphans(&store).await, [id]);
    sample::apply(&store, id, sample::lose(1), later(3)).await;
    assert_eq!(store.ready(later(3), 10).await.unwrap().len(), 1);
    sample::apply(&store, id, sample::begin(), later(4)).await;
    let stopped = sample::apply(&store, id, Step::Stopped { fence: 3 }, later(5)).await.task;
    assert_eq!((stopped.status, stopped.ended_at), (Status::Cancelled, cancelled.ended_at));
    assert_eq!(store.work(id).await.unwrap(), None);
    assert_eq!(store.due(later(999_999), 10).await.unwrap(), [id]);
    assert_eq!(orphans(&store).await, []);
}

/// The versions of what there is, whatever else is asked for.
pub async fn versions_are_told_for_many<S: Store>(make: impl Fn() -> S) {
    let store = make();
    let one = sample::create(&store, sample::new_task()).await.id;
    let two = sample::create(&store, sample::new_task()).await.id;
    sample::apply(&store, two, sample::report("on"), NOW).await;
    let mut versions = store.versions(vec![two, sample::forged(one), sample::id(), one]).await.unwrap();
    versions.sort();
    assert_eq!(versions, [(one, 1), (two, 2)]);
    assert_eq!(store.versions(Vec::new()).await.unwrap(), []);
}

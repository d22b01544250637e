//! Goes on with the tasks of each owner on the owner's own connection.

use std::sync::{Arc, Weak};

use futures_util::future::BoxFuture;
use taskgate_engine::{Ending, NotStopped, Report, Runner, Work};
use taskgate_task::Owner;

use super::Pool;
use crate::bounds::Turn;
use crate::rules::Again;
use crate::upstream::{Discreet, Marks, McpRunner, Upstream};

/// Runs what was begun before, when it was not known yet on which connection.
struct EachOwner {
    pool: Weak<Pool>,
    name: Arc<str>,
}

impl EachOwner {
    /// What runs the work of this owner, once its connection is found or made.
    fn of(&self, owner: &Owner) -> impl Future<Output = McpRunner> + Send + use<> {
        let (pool, name, owner) = (self.pool.clone(), self.name.clone(), owner.clone());
        async move {
            let found = match pool.upgrade() {
                Some(pool) => pool.find(&name, &owner).await,
                None => None,
            };
            // The upstream is not kept: it may be gone before its last call is.
            McpRunner(found.as_ref().map(Arc::downgrade).unwrap_or_default())
        }
    }
}

impl Runner for EachOwner {
    fn run(&self, work: Work, report: Report) -> BoxFuture<'static, Ending> {
        let runner = self.of(&work.owner);
        Box::pin(async move { runner.await.run(work, report).await })
    }

    fn stop(&self, work: Work) -> BoxFuture<'static, Result<(), NotStopped>> {
        let runner = self.of(&work.owner);
        Box::pin(async move { runner.await.stop(work).await })
    }
}

impl Pool {
    /// Runs the tools of an upstream, whoever's call it is.
    pub(crate) fn runner(self: &Arc<Self>, upstream: &Arc<Upstream>) -> Arc<dyn Runner> {
        let with = upstream.own_runner().unwrap_or_else(|| {
            Arc::new(EachOwner { pool: Arc::downgrade(self), name: upstream.name().into() })
        });
        let with = Discreet::before(Marks::of_upstream(&upstream.spec()), with);
        Turn::before(self.limits.clone(), Again::of(&self.common.rules, upstream), with, None)
    }
}

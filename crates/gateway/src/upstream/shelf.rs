//! The lists of one upstream as they are known here.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::Shared;
use parking_lot::RwLock;
use taskgate_client::session::Session;
use taskgate_wire::{ListKind, RpcError};
use tokio::sync::oneshot;

use super::{Catalog, Upstream, lane};

/// A server that does not answer must not keep callers from what the others list.
const LISTING: Duration = Duration::from_secs(5);

/// A place for each list.
#[derive(Default)]
pub struct Shelf([RwLock<Place>; ListKind::ALL.len()]);

#[derive(Default)]
struct Place {
    /// What was fetched last; `None` if nothing ever was.
    catalog: Option<Arc<Catalog>>,
    /// Whether nothing has been said against it since.
    current: bool,
    /// How often something was: a list that was asked for before that is not current when it arrives.
    changes: u64,
    /// Whether the server was given its time for the list and has neither answered nor said that it changed since.
    silent: bool,
    /// Ends with the fetch that is under way for whoever learns the list: they share it, and it outlives them.
    fetch: Option<Shared<oneshot::Receiver<()>>>,
}

impl Shelf {
    fn place(&self, kind: ListKind) -> &RwLock<Place> {
        match kind {
            ListKind::Tools => &self.0[0],
            ListKind::Prompts => &self.0[1],
            ListKind::Resources => &self.0[2],
            ListKind::Templates => &self.0[3],
        }
    }

    /// Keeps a list that was just fetched.
    pub fn put(&self, kind: ListKind, catalog: Arc<Catalog>) {
        let changes = self.place(kind).read().changes;
        self.put_as_of(kind, catalog, changes);
    }

    /// Keeps a list that was asked for when it had changed this often.
    fn put_as_of(&self, kind: ListKind, catalog: Arc<Catalog>, changes: u64) {
        let mut place = self.place(kind).write();
        place.catalog = Some(catalog);
        (place.current, place.silent) = (place.changes == changes, false);
    }

    /// The list has changed, or is another server's now. What it was stays known until it is fetched again.
    pub fn expire(&self, kind: ListKind) {
        let mut place = self.place(kind).write();
        place.changes += 1;
        (place.current, place.silent, place.fetch) = (false, false, None);
    }
}

impl Upstream {
    /// What it listed when it was last asked.
    pub fn catalog(&self, kind: ListKind) -> Arc<Catalog> {
        self.shelf.place(kind).read().catalog.clone().unwrap_or_default()
    }

    /// Whether it has ever listed this.
    pub fn has_listed(&self, kind: ListKind) -> bool {
        self.shelf.place(kind).read().catalog.is_some()
    }

    /// Whether what it listed is what it has, as far as anybody said.
    pub fn is_current(&self, kind: ListKind) -> bool {
        self.shelf.place(kind).read().current
    }

    /// Whether it was asked for this list in vain, and has not spoken of it since.
    pub fn is_silent(&self, kind: ListKind) -> bool {
        self.shelf.place(kind).read().silent
    }

    /// Fetches a list anew.
    pub async fn refresh(&self, kind: ListKind) -> Result<Arc<Catalog>, RpcError> {
        let session = self.connection().await?;
        match self.fetch(&session, kind).await {
            // Lost with its connection. On the next one it is asked for again, once.
            Err(_) if session.is_stale() => self.fetch(&self.connection().await?, kind).await,
            fetched => fetched,
        }
    }

    /// Fetches a list anew, for whoever can do with what it was.
    pub async fn renew(&self, kind: ListKind) {
        if let Err(error) = self.refresh(kind).await {
            self.cannot_be_listed(kind, &error);
        }
    }

    /// Fetches a list if it is not known, or known to have changed. One that is down keeps the list it had.
    ///
    /// A silent server is asked again, lest it be taken for silent for ever, but nobody waits for it: what it listed last
    /// serves until it answers.
    pub async fn learn(self: &Arc<Self>, kind: ListKind) {
        if self.is_current(kind) {
            return;
        }
        let session = match self.connection().await {
            Ok(session) => session,
            Err(error) => return self.cannot_be_listed(kind, &error),
        };
        let (fetch, silent) = {
            let mut place = self.shelf.place(kind).write();
            let changes = place.changes;
            let fetch = place.fetch.get_or_insert_with(|| self.fetch_apart(session, kind, changes)).clone();
            (fetch, place.silent)
        };
        if !silent {
            // It has no value: its sender is dropped when it is over.
            let _ = fetch.await;
        }
    }

    /// Fetches a list whether or not anybody waits for it to the end: whoever finds elsewhere what it looks for goes on at
    /// once, and the next one should still find the list, or know that the server is silent.
    fn fetch_apart(
        self: &Arc<Self>,
        session: Session,
        kind: ListKind,
        changes: u64,
    ) -> Shared<oneshot::Receiver<()>> {
        let (over, ended) = oneshot::channel();
        let upstream = self.clone();
        tokio::spawn(async move {
            if let Err(error) = upstream.fetch(&session, kind).await {
                upstream.cannot_be_listed(kind, &error);
            }
            let mut place = upstream.shelf.place(kind).write();
            // After a change there is no fetch under way, or another one.
            if place.changes == changes {
                place.fetch = None;
            }
            drop(place);
            drop::<oneshot::Sender<()>>(over);
        });
        ended.shared()
    }

    async fn fetch(&self, session: &Session, kind: ListKind) -> Result<Arc<Catalog>, RpcError> {
        let changes = self.shelf.place(kind).read().changes;
        let fetch = Catalog::fetch(session, lane(session, true), kind, self.spec().may_host_tasks());
        let catalog = tokio::time::timeout(LISTING, fetch).await.unwrap_or_else(|_| {
            self.shelf.place(kind).write().silent = true;
            let text = format!("The server {:?} did not answer {} in time", self.name(), kind.method());
            Err(RpcError::internal(text))
        })?;
        let catalog = Arc::new(catalog);
        self.shelf.put_as_of(kind, catalog.clone(), changes);
        Ok(catalog)
    }

    fn cannot_be_listed(&self, kind: ListKind, error: &RpcError) {
        tracing::debug!(upstream = self.name(), %error, list = kind.method(), "cannot be listed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_changed_while_it_was_fetched_is_not_current() {
        let (shelf, kind) = (Shelf::default(), ListKind::Prompts);
        let standing = || {
            let place = shelf.place(kind).read();
            (place.catalog.is_some(), place.current, place.silent)
        };
        let asked = shelf.place(kind).read().changes;
        shelf.place(kind).write().silent = true;
        shelf.expire(kind);
        assert_eq!(standing(), (false, false, false));
        shelf.put_as_of(kind, Arc::default(), asked);
        assert_eq!(standing(), (true, false, false));
        shelf.put(kind, Arc::default());
        assert_eq!(standing(), (true, true, false));
    }
}

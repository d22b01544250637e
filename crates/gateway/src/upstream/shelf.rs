//! The lists of one upstream as they are known here.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use taskgate_wire::{ListKind, RpcError};

use super::{Catalog, Upstream, lane};

/// A server that does not answer must not keep callers from what the others list.
const LISTING: Duration = Duration::from_secs(5);

/// A place for each list.
#[derive(Default)]
pub struct Shelf([RwLock<Place>; ListKind::ALL.len()]);

#[derive(Default)]
struct Place {
    catalog: Arc<Catalog>,
    /// Whether it was fetched and nothing has been said against it since.
    current: bool,
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

    /// Keeps a list.
    pub fn put(&self, kind: ListKind, catalog: Arc<Catalog>) {
        *self.place(kind).write() = Place { catalog, current: true };
    }

    /// The list has changed. What it was stays known until it is fetched again.
    pub fn expire(&self, kind: ListKind) {
        self.place(kind).write().current = false;
    }
}

impl Upstream {
    /// What it listed when it was last asked.
    pub fn catalog(&self, kind: ListKind) -> Arc<Catalog> {
        self.shelf.place(kind).read().catalog.clone()
    }

    /// Fetches a list anew.
    pub async fn refresh(&self, kind: ListKind) -> Result<Arc<Catalog>, RpcError> {
        let session = self.session().await?;
        let fetch = Catalog::fetch(&session, lane(&session, true), kind);
        let catalog = tokio::time::timeout(LISTING, fetch).await.unwrap_or_else(|_| {
            let text = format!("The server {:?} did not answer {} in time", self.name(), kind.method());
            Err(RpcError::internal(text))
        })?;
        let catalog = Arc::new(catalog);
        self.shelf.put(kind, catalog.clone());
        Ok(catalog)
    }

    /// Fetches a list if it is not known, or known to have changed. One that is down keeps the list it had.
    pub async fn learn(&self, kind: ListKind) {
        let current = self.shelf.place(kind).read().current;
        if !current && let Err(error) = self.refresh(kind).await {
            tracing::debug!(upstream = self.name(), %error, list = kind.method(), "cannot be listed");
        }
    }
}

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use reqwest::header::HeaderValue;

use super::line::Opened;
use super::server::HttpServer;
use crate::transport::Link;

/// The session of a link, by the name that its server has given it (up to 2025-11-25). There are servers whose tasks belong to
/// the session they were made in, so whoever comes back for a task may have to come back in that one.
#[derive(Clone)]
pub struct Named {
    server: HttpServer,
    opened: Arc<Mutex<Opened>>,
}

impl Named {
    pub(super) fn new(server: HttpServer, opened: Arc<Mutex<Opened>>) -> Named {
        Named { server, opened }
    }

    /// The name, if it has one.
    pub fn name(&self) -> Option<String> {
        self.opened.lock().id.as_ref()?.to_str().ok().map(ToOwned::to_owned)
    }

    /// The session is not to be ended with its link while something of ours goes on in it.
    pub fn hold(&self) {
        self.opened.lock().holds += 1;
    }

    /// What [`Named::hold`] was for has ended.
    pub fn release(&self) {
        let mut opened = self.opened.lock();
        opened.holds = opened.holds.saturating_sub(1);
    }

    /// A link to the session of this name, which some other link has opened. It does not end it.
    ///
    /// # Errors
    ///
    /// What is wrong with the name, or missing on this machine.
    pub fn link_to(&self, name: &str) -> Result<Link, String> {
        let id = HeaderValue::from_str(name).map_err(|error| error.to_string())?;
        let version = self.opened.lock().version.clone();
        super::connect_in(&self.server, Opened { id: Some(id), version, holds: 1, is_lost: false })
    }
}

impl fmt::Debug for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Named").field("server", &self.server).finish_non_exhaustive()
    }
}

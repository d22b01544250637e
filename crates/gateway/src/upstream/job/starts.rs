//! Starts that are under way in this process. One is seen to its end whatever becomes of the run that wanted it: whether
//! there is a job must be known by somebody.

use std::collections::HashMap;

use parking_lot::Mutex;
use serde_json::{Map, Value};
use taskgate_job::Failure;
use tokio::sync::watch;

/// What came of a start.
#[derive(Debug, Clone)]
pub enum Came {
    /// There is a job. `is_put_down` says whether where it is has been put down.
    Started { job: Map<String, Value>, is_put_down: bool },
    /// There is none, or it is not known whether there is: [`Failure::did_nothing`] says which.
    Failed(Failure),
}

/// The starts of one tool, by their keys.
#[derive(Default)]
pub struct Starts(Mutex<HashMap<String, watch::Receiver<Option<Came>>>>);

/// Where it will be known what came of a start.
pub struct Coming(watch::Receiver<Option<Came>>);

impl Starts {
    /// Notes that a start is under way.
    pub fn begin(&self, key: &str) -> (watch::Sender<Option<Came>>, Coming) {
        let (tell, came) = watch::channel(None);
        self.0.lock().insert(key.to_owned(), came.clone());
        (tell, Coming(came))
    }

    /// The start with this key, if it was in this process and not long ago.
    pub fn find(&self, key: &str) -> Option<Coming> {
        self.0.lock().get(key).cloned().map(Coming)
    }

    pub fn forget(&self, key: &str) {
        self.0.lock().remove(key);
    }
}

impl Coming {
    /// What came of it. `None` if that will never be known: the runtime goes.
    pub async fn came(mut self) -> Option<Came> {
        self.0.wait_for(Option::is_some).await.ok()?.clone()
    }
}

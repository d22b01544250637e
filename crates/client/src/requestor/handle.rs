use serde::{Deserialize, Serialize};

/// The way back to a task, in this process or another. It is a secret where its server cannot tell its callers apart: whoever
/// has the id has the task.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Handle {
    /// [`Endpoint::identity`](super::Endpoint::identity) of the server.
    pub endpoint: String,
    /// The protocol version it was made under; 2025-10-20 for a task that its call's metadata named, in a session of any version.
    pub version: String,
    /// The server's id for it.
    pub task: String,
    /// The session it was made in, as its server calls it (over HTTP, up to 2025-11-25). There are servers whose tasks belong to
    /// one, so whoever comes back for the task comes back in that one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The tool that was called.
    pub tool: String,
    /// When the call was made, in milliseconds since 1970, by the clock of whoever made it.
    pub created: u64,
}

/// What [`Handle::version`] is of tasks that the metadata of their calls has named.
pub(super) const FIRST: &str = "2025-10-20";

impl Handle {
    /// Whether the metadata of its call has named it.
    pub(super) fn is_first(&self) -> bool {
        self.version == FIRST
    }
}

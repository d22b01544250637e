use std::fmt;
use std::sync::Arc;

/// The authorization context a task belongs to.
///
/// It is a principal, never a transport session: sessions end at every restart. Every operation compares
/// owners before it looks at anything else, and what is someone else's does not exist.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner(Arc<str>);

impl Owner {
    /// Whoever has no authorization. Ids are bearer secrets then, and tasks cannot be listed.
    pub fn anonymous() -> Self {
        Owner(Arc::from("anonymous"))
    }

    /// The one known user of a stdio connection or of a loopback server started with `--single-user`.
    pub fn local() -> Self {
        Owner(Arc::from("local"))
    }

    /// The owner with this name.
    pub fn named(name: &str) -> Self {
        Owner(Arc::from(name))
    }

    /// Whether callers under this owner cannot be told apart.
    pub fn is_anonymous(&self) -> bool {
        &*self.0 == "anonymous"
    }

    /// The name, as stored.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Owner({})", self.0)
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

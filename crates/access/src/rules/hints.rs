use serde::{Deserialize, Serialize};

/// What a tool says of itself in its annotations. Nobody checks it: whoever has rules about it trusts the tool's server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hints {
    /// It changes nothing.
    pub read_only: bool,
    /// It may destroy something.
    pub destructive: bool,
    /// A second call with the same arguments changes nothing more.
    pub idempotent: bool,
    /// It deals with things outside, such as the web.
    pub open_world: bool,
}

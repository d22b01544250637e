use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Timestamp;

/// One life of a process that carries work. A process that starts again is another node, and so is one that was
/// declared dead and goes on: what it held before is no longer its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeId(i64);

impl NodeId {
    /// Makes an id from 8 random bytes of the operating system: 63 bits, so that it is positive in every store.
    pub fn from_entropy(entropy: [u8; 8]) -> Self {
        NodeId(i64::from_be_bytes(entropy) & i64::MAX)
    }

    /// The id a store has kept as this number.
    pub const fn from_number(number: i64) -> Self {
        NodeId(number)
    }

    /// The number, as stored.
    pub const fn as_number(self) -> i64 {
        self.0
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Who carries the work of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carrier {
    /// An attempt on this node. Of a task that has ended: its work, which goes on elsewhere, is being stopped there.
    Node(NodeId),
    /// Nobody; an attempt may begin from this moment on. Of a task that has ended: its work is still to be stopped.
    Ready(Timestamp),
    /// Nobody, and nothing is to be done: the task waits for answers, or it has ended.
    Nobody,
}

impl Carrier {
    /// The node, if an attempt is under way.
    pub fn node(self) -> Option<NodeId> {
        match self {
            Carrier::Node(node) => Some(node),
            Carrier::Ready(_) | Carrier::Nobody => None,
        }
    }

    /// From when on an attempt may begin, if none is under way and one is wanted.
    pub fn ready_at(self) -> Option<Timestamp> {
        match self {
            Carrier::Ready(at) => Some(at),
            Carrier::Node(_) | Carrier::Nobody => None,
        }
    }

    /// Puts together what a store keeps in two columns, of which at most one is set.
    pub fn from_parts(node: Option<NodeId>, ready_at: Option<Timestamp>) -> Self {
        match (node, ready_at) {
            (Some(node), _) => Carrier::Node(node),
            (None, Some(at)) => Carrier::Ready(at),
            (None, None) => Carrier::Nobody,
        }
    }
}

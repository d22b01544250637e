//! Which nodes of a shared store are dead.

use std::collections::HashMap;
use std::time::Duration;

use taskgate_task::{NodeId, Timestamp};
use tokio::time::Instant;

use crate::NodeSettings;
use crate::store::Node;

/// The signs of life that were seen of other nodes, each with when it was first seen.
///
/// The end of a lease is a time of the store's clock, which may be set while nodes hold leases by what it was before: then
/// living nodes seem to be dead to the one that hears of it first, or dead ones to live for as long as it was set back. So what
/// was seen counts too, by this machine's steady clock.
#[derive(Default)]
pub(crate) struct Signs(HashMap<NodeId, (Timestamp, Instant)>);

impl Signs {
    /// What was seen no longer counts: this node was out of touch itself.
    pub(crate) fn forget(&mut self) {
        self.0.clear();
    }

    /// Takes in how the nodes stand at `now`, and returns those that are dead: their lease is over and they have been silent
    /// for what is left of one after a heartbeat, or they have been silent for two.
    pub(crate) fn dead(&mut self, nodes: Vec<Node>, now: Timestamp, settings: &NodeSettings) -> Vec<Node> {
        let here = Instant::now();
        let silent = |lease: Timestamp, seen: Option<&(Timestamp, Instant)>| match seen {
            Some((last, since)) if *last == lease => *since,
            _ => here,
        };
        self.0 = nodes
            .iter()
            .map(|node| (node.id, (node.lease_until, silent(node.lease_until, self.0.get(&node.id)))))
            .collect();
        let is_dead = |node: &Node| {
            let silence =
                self.0.get(&node.id).map_or(Duration::ZERO, |(_, since)| here.duration_since(*since));
            let is_over =
                node.lease_until <= now && silence >= settings.lease.saturating_sub(settings.heartbeat);
            is_over || silence >= settings.lease * 2
        };
        nodes.into_iter().filter(is_dead).collect()
    }
}

//! Where URLs of others may lead to.

use taskgate_reach::{Allowed, Reach};

use super::Surroundings;
use crate::config::raw::network::RawNetwork;

/// Checks `[network]`.
pub(super) fn check(raw: &RawNetwork, around: &Surroundings<'_>) -> Reach {
    let allowed = "networks such as \"10.0.0.0/8\", addresses, and names of hosts without ports";
    let words = raw.allow_private.iter().flat_map(|words| words.get_ref());
    let read = words.filter_map(|word| around.parsed_at(word, "allow_private", allowed, Allowed::parse));
    Reach::new(read.collect())
}

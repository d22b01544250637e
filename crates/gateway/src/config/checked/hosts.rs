//! How long callers that cannot have a task are let wait.

use std::time::Duration;

use super::Surroundings;
use crate::config::limits;
use crate::config::raw::RawHosts;
use crate::hosts::HostSettings;

/// The settings for hosts without tasks.
pub(super) fn check(raw: &RawHosts, around: &Surroundings<'_>) -> HostSettings {
    let default = HostSettings::default();
    let off_or = format!("\"off\", or {}", limits::HOST_BUDGET.allowed());
    let clients = raw.clients.iter().flat_map(|clients| clients.get_ref()).filter_map(|client| {
        let pattern = client.pattern.get_ref();
        if pattern.is_empty() {
            let what = "the name of a client is empty";
            around.problems.add_with_help(client.pattern.span(), what, "allowed: a name, or \"*\" for any");
        }
        let key = format!("hosts.clients.{pattern}");
        Some((pattern.clone(), around.parsed_at(&client.budget, &key, &off_or, parse_budget)?))
    });
    HostSettings {
        clients: clients.collect(),
        budget: around.parsed(&raw.budget, "hosts.budget", &off_or, parse_budget).unwrap_or(default.budget),
    }
}

fn parse_budget(text: &str) -> Result<Option<Duration>, String> {
    if text == "off" { Ok(None) } else { limits::HOST_BUDGET.parse(text).map(Some) }
}

//! How long hosts that know no tasks are let wait for a call.

use std::time::Duration;

/// Our own name as a client. A taskgate behind a taskgate has no host in front of it: the one before it waits for the result
/// however long that takes, and makes the task itself.
pub(crate) const OWN_NAME: &str = "taskgate";

/// What is configured for callers that cannot have a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostSettings {
    /// How long such a caller waits for a call before it is answered in words; `None` lets it wait for the end.
    pub budget: Option<Duration>,
    /// Other budgets by the name that a client gives itself. In a name, `*` stands for anything; capitals do not matter.
    pub clients: Vec<(String, Option<Duration>)>,
}

impl Default for HostSettings {
    fn default() -> Self {
        // The usual cut-off is 60 s, and the answer must arrive before it.
        HostSettings { budget: Some(Duration::from_secs(45)), clients: Vec::new() }
    }
}

impl HostSettings {
    /// The budget of a client with this name. Of several patterns that fit, the longest says most about it.
    pub fn budget_of(&self, client: Option<&str>) -> Option<Duration> {
        let Some(client) = client else { return self.budget };
        if client == OWN_NAME {
            return None;
        }
        let client = client.to_lowercase();
        let fitting = self.clients.iter().filter(|(pattern, _)| fits(&pattern.to_lowercase(), &client));
        fitting.max_by_key(|(pattern, _)| pattern.len()).map_or(self.budget, |(_, budget)| *budget)
    }
}

/// Whether a name is as a pattern says.
fn fits(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut name) = name.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        // The earliest place leaves most for what comes after it.
        let Some(at) = name.find(part) else { return false };
        name = &name[at + part.len()..];
    }
    name.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_anything() {
        for (pattern, name, fitting) in [
            ("cursor", "cursor", true),
            ("cursor", "cursor-vscode", false),
            ("cursor*", "cursor-vscode", true),
            ("*", "", true),
            ("a*b*c", "abc", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("ab*ba", "aba", false),
            ("*code", "vscode", true),
            ("*code", "codes", false),
        ] {
            assert_eq!(fits(pattern, name), fitting, "{pattern} {name}");
        }
    }

    #[test]
    fn the_longest_pattern_that_fits_decides() {
        let second = Duration::from_secs(1);
        let clients = vec![("Claude*".to_owned(), Some(second)), ("claude-code".to_owned(), None)];
        let hosts = HostSettings { clients, ..HostSettings::default() };
        assert_eq!(hosts.budget_of(Some("claude-ai")), Some(second));
        assert_eq!(hosts.budget_of(Some("Claude-Code")), None);
        assert_eq!(hosts.budget_of(Some("other")), hosts.budget);
        assert_eq!(hosts.budget_of(None), hosts.budget);
        // A gateway of ours is no host, whatever is configured.
        assert_eq!(
            HostSettings { clients: vec![("*".into(), Some(second))], ..hosts }.budget_of(Some(OWN_NAME)),
            None
        );
    }
}

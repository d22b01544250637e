use std::collections::{BTreeMap, BTreeSet};

use crate::identity::Identity;
use crate::refusal::Refusal;

/// Which scopes what needs. What is not written needs none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    /// What every request needs.
    pub required: Vec<String>,
    /// What a method needs, by its name. A name that ends with `*` stands for all that begin so.
    pub methods: BTreeMap<String, Vec<String>>,
    /// What a call of a tool needs, by the tool's name.
    pub tools: BTreeMap<String, Vec<String>>,
    /// Which scopes a scope includes: "Servers MUST account for scope hierarchies" (MCP 2026-07-28, "Scope Challenge Handling").
    pub includes: BTreeMap<String, Vec<String>>,
}

/// Whether a text can be a scope (RFC 6749, 3.3), and so stand in a header.
pub fn is_scope(text: &str) -> bool {
    let is_plain = |byte: u8| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e);
    !text.is_empty() && text.bytes().all(is_plain)
}

impl Rights {
    /// Whether this caller may ask this at all, whatever tool it is about.
    ///
    /// # Errors
    ///
    /// Which scopes are needed. All of them at once, so that one more token is enough.
    pub fn check<'m>(
        &self,
        identity: &Identity,
        methods: impl IntoIterator<Item = &'m str>,
        tools: impl IntoIterator<Item = &'m str>,
    ) -> Result<(), Refusal> {
        let mut needed: BTreeSet<&str> = self.required.iter().map(String::as_str).collect();
        for method in methods {
            let meant = self.methods.iter().filter(|(pattern, _)| is_meant(pattern, method));
            needed.extend(meant.flat_map(|(_, scopes)| scopes).map(String::as_str));
        }
        for tool in tools {
            needed.extend(self.tools.get(tool).into_iter().flatten().map(String::as_str));
        }
        if needed.is_empty() {
            return Ok(());
        }
        let granted = self.all_of(identity);
        if needed.iter().all(|scope| granted.contains(scope)) {
            return Ok(());
        }
        Err(Refusal::InsufficientScope(needed.into_iter().map(str::to_owned).collect()))
    }

    /// What is granted, and all that this includes.
    pub(crate) fn all_of<'a>(&'a self, identity: &'a Identity) -> BTreeSet<&'a str> {
        let mut all = BTreeSet::new();
        let mut left: Vec<&str> = identity.scopes.iter().map(String::as_str).collect();
        while let Some(scope) = left.pop() {
            if all.insert(scope) {
                left.extend(self.includes.get(scope).into_iter().flatten().map(String::as_str));
            }
        }
        all
    }
}

fn is_meant(pattern: &str, method: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == method, |start| method.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(words: &str) -> Vec<String> {
        words.split_whitespace().map(str::to_owned).collect()
    }

    fn rights() -> Rights {
        let table = |entries: &[(&str, &str)]| {
            entries.iter().map(|(name, scopes)| ((*name).to_owned(), list(scopes))).collect()
        };
        Rights {
            required: list("mcp"),
            methods: table(&[("tasks/*", "tasks"), ("tasks/cancel", "stop")]),
            tools: table(&[("report", "reports")]),
            includes: table(&[("admin", "mcp tasks"), ("tasks", "stop"), ("stop", "tasks")]),
        }
    }

    #[test]
    fn all_that_is_needed_is_told_at_once() {
        for (granted, method, tool, needed) in [
            ("mcp", "tools/list", None, None),
            ("", "tools/list", None, Some("mcp")),
            ("mcp", "tasks/cancel", None, Some("mcp stop tasks")),
            ("mcp", "tools/call", Some("report"), Some("mcp reports")),
            ("mcp reports", "tools/call", Some("report"), None),
            ("mcp", "tools/call", Some("reports"), None),
            ("admin", "tasks/cancel", None, None),
            ("admin", "tools/call", Some("report"), Some("mcp reports")),
        ] {
            let identity = Identity {
                owner: "a".to_owned(),
                scopes: list(granted).into_iter().collect(),
                expires: None,
                claims: Default::default(),
            };
            let expected = needed.map_or(Ok(()), |needed| Err(Refusal::InsufficientScope(list(needed))));
            assert_eq!(rights().check(&identity, [method], tool), expected, "{granted} {method}");
        }
    }

    #[test]
    fn a_scope_can_stand_in_a_header() {
        for (text, good) in
            [("tasks:read", true), ("", false), ("a b", false), ("a\"", false), ("a\\", false), ("ä", false)]
        {
            assert_eq!(is_scope(text), good, "{text}");
        }
    }
}

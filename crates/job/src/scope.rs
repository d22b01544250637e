use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::template::Fault;

/// What a template or an expression may name at its place.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    /// The names: some of `args`, `key`, `job`, `with`, `callback_url`, `status`, `headers`, `body`, `answer`, `question`.
    pub names: &'a [&'a str],
    /// The settings, all known from the start.
    pub with: &'a Map<String, Value>,
    /// What a start puts into `job`.
    pub job: &'a [&'a str],
}

impl Scope<'_> {
    /// Checks what a text names, each as far as its dots go.
    ///
    /// # Errors
    ///
    /// The first name that is not known here.
    pub(crate) fn check(&self, named: HashSet<String>) -> Result<(), Fault> {
        let mut named: Vec<String> = named.into_iter().collect();
        named.sort();
        for name in named {
            let mut parts = name.split('.');
            let root = parts.next().unwrap_or_default();
            if !self.names.contains(&root) {
                let names = self.names.join(", ");
                return Err(Fault::new(format!("`{root}` is not known here; known: {names}")));
            }
            let known: Vec<&str> = match root {
                "with" => self.with.keys().map(String::as_str).collect(),
                "job" => self.job.to_vec(),
                _ => continue,
            };
            if let Some(part) = parts.next()
                && !known.contains(&part)
            {
                let known = if known.is_empty() { "nothing".to_owned() } else { known.join(", ") };
                return Err(Fault::new(format!("`{root}` has no `{part}`; it has: {known}")));
            }
        }
        Ok(())
    }
}

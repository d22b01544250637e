//! What is written of hosts that know no tasks.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::TOP;
use crate::config::error::Problems;
use crate::config::fields::{Entry, Fields, FromValue, Section, with_article};

/// The keys of `[hosts]`.
pub(in crate::config) const HOSTS: Section = Section { name: "[hosts]", keys: &["budget", "clients"] };

/// How callers that cannot have a task are treated.
#[derive(Debug, Default)]
pub(in crate::config) struct RawHosts {
    pub(in crate::config) budget: Entry<String>,
    pub(in crate::config) clients: Entry<Vec<RawClient>>,
}

/// The budget of clients with a name.
#[derive(Debug)]
pub(in crate::config) struct RawClient {
    pub(in crate::config) pattern: Spanned<String>,
    pub(in crate::config) budget: Spanned<String>,
}

impl RawHosts {
    pub(super) fn read(table: Entry<&DeTable<'_>>, problems: &Problems) -> RawHosts {
        let Some(table) = table else { return RawHosts::default() };
        let fields = Fields::new(table.get_ref(), &HOSTS, &[&TOP], problems);
        RawHosts { budget: fields.get("budget"), clients: fields.get("clients") }
    }
}

impl<'a, 'i> FromValue<'a, 'i> for Vec<RawClient> {
    const WHAT: &'static str = "a table of budgets by names of clients";

    fn read(value: &'a DeValue<'i>, _: &'static str, problems: &Problems) -> Option<Self> {
        let clients = value.as_table()?.iter().filter_map(|(name, value)| {
            let Some(budget) = value.get_ref().as_str() else {
                let found = with_article(value.get_ref().type_str());
                let what = format!("the budget of `{}` must be a string, not {found}", name.get_ref());
                problems.add_with_help(value.span(), what, "write it like \"50s\" or \"off\"");
                return None;
            };
            Some(RawClient {
                pattern: Spanned::new(name.span(), name.get_ref().to_string()),
                budget: Spanned::new(value.span(), budget.to_owned()),
            })
        });
        Some(clients.collect())
    }
}

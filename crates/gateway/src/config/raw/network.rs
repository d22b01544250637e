//! What is written of where URLs of others may lead to.

use toml::Spanned;
use toml::de::DeTable;

use super::TOP;
use crate::config::error::Problems;
use crate::config::fields::{Entry, Fields, Section};

/// The keys of `[network]`.
pub(in crate::config) const NETWORK: Section = Section { name: "[network]", keys: &["allow_private"] };

/// What URLs of others may lead to.
#[derive(Debug, Default)]
pub(in crate::config) struct RawNetwork {
    pub(in crate::config) allow_private: Entry<Vec<Spanned<String>>>,
}

impl RawNetwork {
    pub(super) fn read(table: Entry<&DeTable<'_>>, problems: &Problems) -> RawNetwork {
        let Some(table) = table else { return RawNetwork::default() };
        let fields = Fields::new(table.get_ref(), &NETWORK, &[&TOP], problems);
        RawNetwork { allow_private: fields.get("allow_private") }
    }
}

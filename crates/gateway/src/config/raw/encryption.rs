//! What is written of the keys that the store is encrypted with.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::TOP;
use crate::config::error::Problems;
use crate::config::fields::{Entry, Fields, FromValue, Section, with_article};

/// The keys of `[encryption]`.
pub(in crate::config) const ENCRYPTION: Section = Section { name: "[encryption]", keys: &["keys"] };
/// What is written of one of its keys.
pub(in crate::config) const KEY: Section =
    Section { name: "a key of [encryption]", keys: &["from_file", "from_env", "from_command"] };

/// Where the keys are.
#[derive(Debug)]
pub(in crate::config) struct RawEncryption {
    pub(in crate::config) keys: Entry<Vec<Spanned<RawKey>>>,
}

/// Where one of them is.
#[derive(Debug)]
pub(in crate::config) struct RawKey {
    pub(in crate::config) from_file: Entry<String>,
    pub(in crate::config) from_env: Entry<String>,
    pub(in crate::config) from_command: Entry<Vec<Spanned<String>>>,
    /// How many of these are there, with whatever value.
    pub(in crate::config) written: usize,
}

impl RawEncryption {
    pub(super) fn read(table: &DeTable<'_>, problems: &Problems) -> RawEncryption {
        RawEncryption { keys: Fields::new(table, &ENCRYPTION, &[&TOP, &KEY], problems).get("keys") }
    }
}

impl<'a, 'i> FromValue<'a, 'i> for Vec<Spanned<RawKey>> {
    const WHAT: &'static str = "an array of tables such as { from_file = \"PATH\" }";

    fn read(value: &'a DeValue<'i>, key: &'static str, problems: &Problems) -> Option<Self> {
        let mut keys = Vec::new();
        for item in value.as_array()?.iter() {
            match item.get_ref() {
                DeValue::Table(table) => {
                    let fields = Fields::new(table, &KEY, &[], problems);
                    let raw = RawKey {
                        from_file: fields.get("from_file"),
                        from_env: fields.get("from_env"),
                        from_command: fields.get("from_command"),
                        written: table.len(),
                    };
                    keys.push(Spanned::new(item.span(), raw));
                }
                other => {
                    let found = with_article(other.type_str());
                    problems.add_with_help(
                        item.span(),
                        format!("`{key}` has {found} among its tables"),
                        "a key is not written here: say where it is, such as { from_file = \"PATH\" }",
                    );
                }
            }
        }
        Some(keys)
    }
}

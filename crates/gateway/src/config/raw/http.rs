//! What is written of an upstream that is a URL.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::UPSTREAM;
use crate::config::error::Problems;
use crate::config::fields::{Entry, Fields, FromValue, Section};

/// The keys of `[upstream.oauth]`.
pub(in crate::config) const OAUTH: Section = Section {
    name: "[upstream.oauth]",
    keys: &[
        "token_url",
        "issuer",
        "client_id",
        "client_secret",
        "secret_in",
        "refresh_token",
        "scopes",
        "resource",
    ],
};

/// The keys of a secret that is not written out.
pub(in crate::config) const SECRET: Section = Section { name: "a secret", keys: &["from_env", "from_file"] };

/// How tokens are got.
#[derive(Debug)]
pub(in crate::config) struct RawOAuth {
    pub(in crate::config) token_url: Entry<String>,
    pub(in crate::config) issuer: Entry<String>,
    pub(in crate::config) client_id: Entry<String>,
    pub(in crate::config) client_secret: Entry<RawSecret>,
    pub(in crate::config) secret_in: Entry<String>,
    pub(in crate::config) refresh_token: Entry<RawSecret>,
    pub(in crate::config) scopes: Entry<Vec<Spanned<String>>>,
    pub(in crate::config) resource: Entry<String>,
    /// Keys that are there, even if their values could not be read.
    pub(in crate::config) written: Vec<String>,
}

/// A header of every request.
#[derive(Debug)]
pub(in crate::config) struct RawHeader {
    pub(in crate::config) name: Spanned<String>,
    pub(in crate::config) value: Spanned<RawSecret>,
}

/// Where a secret comes from.
#[derive(Debug)]
pub(in crate::config) enum RawSecret {
    /// It is written in the file.
    Plain(String),
    /// It is the value of one of our own variables.
    FromEnv(Spanned<String>),
    /// It is the content of a file.
    FromFile(Spanned<String>),
    /// Something is there that has been found wrong already.
    Misread,
}

impl<'a, 'i> FromValue<'a, 'i> for RawSecret {
    const WHAT: &'static str = "a string, { from_env = \"NAME\" } or { from_file = \"PATH\" }";

    fn read(value: &'a DeValue<'i>, _: &'static str, problems: &Problems) -> Option<Self> {
        let table = match value {
            DeValue::String(text) => return Some(RawSecret::Plain(text.to_string())),
            DeValue::Table(table) if !table.is_empty() => table,
            _ => return None,
        };
        let fields = Fields::new(table, &SECRET, &[], problems);
        Some(match (fields.get("from_env"), fields.get::<String>("from_file")) {
            (Some(_), Some(file)) => {
                let what = "a secret comes from one place, not from a variable and a file";
                problems.add_with_help(file.span(), what, "allowed: one of the two");
                RawSecret::Misread
            }
            (Some(name), None) => RawSecret::FromEnv(name),
            (None, Some(path)) => RawSecret::FromFile(path),
            (None, None) => RawSecret::Misread,
        })
    }
}

impl<'a, 'i> FromValue<'a, 'i> for Vec<RawHeader> {
    const WHAT: &'static str = "a table of headers";

    fn read(value: &'a DeValue<'i>, _: &'static str, problems: &Problems) -> Option<Self> {
        let mut headers = Vec::new();
        for (name, value) in value.as_table()?.iter() {
            let span = value.span();
            match RawSecret::read(value.get_ref(), "headers", problems) {
                Some(read) => headers.push(RawHeader {
                    name: Spanned::new(name.span(), name.get_ref().to_string()),
                    value: Spanned::new(span, read),
                }),
                None => {
                    let what = format!("the header `{}` must be {}", name.get_ref(), RawSecret::WHAT);
                    problems.add(span, what);
                }
            }
        }
        Some(headers)
    }
}

impl<'a, 'i> FromValue<'a, 'i> for RawOAuth {
    const WHAT: &'static str = "a table";

    fn read(value: &'a DeValue<'i>, _: &'static str, problems: &Problems) -> Option<Self> {
        let table: &DeTable<'_> = value.as_table()?;
        let fields = Fields::new(table, &OAUTH, &[&UPSTREAM], problems);
        Some(RawOAuth {
            token_url: fields.get("token_url"),
            issuer: fields.get("issuer"),
            client_id: fields.get("client_id"),
            client_secret: fields.get("client_secret"),
            secret_in: fields.get("secret_in"),
            refresh_token: fields.get("refresh_token"),
            scopes: fields.get("scopes"),
            resource: fields.get("resource"),
            written: table.keys().map(|key| key.get_ref().to_string()).collect(),
        })
    }
}

//! What is written of who is let in.

use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use super::TOP;
use super::http::RawSecret;
use crate::config::error::Problems;
use crate::config::fields::{Entry, Fields, FromValue, Section, with_article};

/// The keys of `[auth]`.
pub(in crate::config) const AUTH: Section =
    Section { name: "[auth]", keys: &["resource", "scopes", "issuer", "token", "mtls", "proxy"] };

/// The keys of `[auth.mtls]`.
pub(in crate::config) const MTLS: Section = Section { name: "[auth.mtls]", keys: &["subject", "scopes"] };

/// The keys of `[auth.proxy]`.
pub(in crate::config) const PROXY: Section =
    Section { name: "[auth.proxy]", keys: &["header", "addresses", "scopes"] };

/// The keys of `[auth.scopes]`.
pub(in crate::config) const SCOPES: Section =
    Section { name: "[auth.scopes]", keys: &["required", "methods", "tools", "includes"] };

/// The keys of `[[auth.issuer]]`.
pub(in crate::config) const ISSUER: Section = Section {
    name: "[[auth.issuer]]",
    keys: &[
        "issuer",
        "audience",
        "algorithms",
        "jwks_url",
        "introspection_url",
        "client_id",
        "client_secret",
        "leeway",
        "plain_http",
    ],
};

/// The keys of `[[auth.token]]`.
pub(in crate::config) const TOKEN: Section =
    Section { name: "[[auth.token]]", keys: &["name", "sha256", "scopes"] };

type Words = Entry<Vec<Spanned<String>>>;

/// Who is let in.
#[derive(Debug)]
pub(in crate::config) struct RawAuth {
    pub(in crate::config) resource: Entry<String>,
    pub(in crate::config) scopes: RawScopes,
    pub(in crate::config) issuers: Vec<Spanned<RawIssuer>>,
    pub(in crate::config) tokens: Vec<Spanned<RawToken>>,
    pub(in crate::config) mtls: Entry<RawMtls>,
    pub(in crate::config) proxy: Entry<RawProxy>,
    /// Whether something is there of any kind, even if it could not be read.
    pub(in crate::config) has_some: bool,
}

/// How certificates say who is calling.
#[derive(Debug)]
pub(in crate::config) struct RawMtls {
    pub(in crate::config) subject: Entry<String>,
    pub(in crate::config) scopes: Words,
}

/// A proxy that says who is calling.
#[derive(Debug)]
pub(in crate::config) struct RawProxy {
    pub(in crate::config) header: Entry<String>,
    pub(in crate::config) addresses: Words,
    pub(in crate::config) scopes: Words,
    /// Keys that are there, even if their values could not be read.
    pub(in crate::config) written: Vec<String>,
}

/// What needs which scopes.
#[derive(Debug, Default)]
pub(in crate::config) struct RawScopes {
    pub(in crate::config) required: Words,
    pub(in crate::config) methods: Entry<RawLists>,
    pub(in crate::config) tools: Entry<RawLists>,
    pub(in crate::config) includes: Entry<RawLists>,
}

/// Lists of words by names.
#[derive(Debug)]
pub(in crate::config) struct RawLists(pub(in crate::config) Vec<(Spanned<String>, Vec<Spanned<String>>)>);

/// An authorization server.
#[derive(Debug)]
pub(in crate::config) struct RawIssuer {
    pub(in crate::config) issuer: Entry<String>,
    pub(in crate::config) audience: Words,
    pub(in crate::config) algorithms: Words,
    pub(in crate::config) jwks_url: Entry<String>,
    pub(in crate::config) introspection_url: Entry<String>,
    pub(in crate::config) client_id: Entry<String>,
    pub(in crate::config) client_secret: Entry<RawSecret>,
    pub(in crate::config) leeway: Entry<String>,
    pub(in crate::config) plain_http: Entry<bool>,
    /// Keys that are there, even if their values could not be read.
    pub(in crate::config) written: Vec<String>,
}

/// A token that nobody gives out.
#[derive(Debug)]
pub(in crate::config) struct RawToken {
    pub(in crate::config) name: Entry<String>,
    pub(in crate::config) sha256: Entry<String>,
    pub(in crate::config) scopes: Words,
    /// Keys that are there, even if their values could not be read.
    pub(in crate::config) written: Vec<String>,
}

impl<'a, 'i: 'a> FromValue<'a, 'i> for RawAuth {
    const WHAT: &'static str = "a table";

    fn read(value: &'a DeValue<'i>, _: &'static str, problems: &Problems) -> Option<Self> {
        let table: &'a DeTable<'i> = value.as_table()?;
        let fields = Fields::new(table, &AUTH, &[&SCOPES, &ISSUER, &TOKEN, &TOP], problems);
        Some(RawAuth {
            resource: fields.get("resource"),
            scopes: RawScopes::read(fields.get("scopes"), problems),
            issuers: tables(
                fields.get("issuer"),
                "issuer",
                |table| RawIssuer::read(table, problems),
                problems,
            ),
            tokens: tables(fields.get("token"), "token", |table| RawToken::read(table, problems), problems),
            mtls: fields.get("mtls"),
            proxy: fields.get("proxy"),
            has_some: ["issuer", "token", "mtls", "proxy"].into_iter().any(|key| table.contains_key(key)),
        })
    }
}

/// The tables of an array; what is no table is a problem.
pub(super) fn tables<'a, 'i, T>(
    array: Entry<&'a DeArray<'i>>,
    key: &str,
    read: impl Fn(&'a DeTable<'i>) -> T,
    problems: &Problems,
) -> Vec<Spanned<T>> {
    let items = array.into_iter().flat_map(|array| array.into_inner().iter());
    let tables = items.filter_map(|item| match item.get_ref() {
        DeValue::Table(table) => Some(Spanned::new(item.span(), read(table))),
        other => {
            let found = with_article(other.type_str());
            problems.add(item.span(), format!("`{key}` must hold tables, not {found}"));
            None
        }
    });
    tables.collect()
}

impl RawScopes {
    fn read(table: Entry<&DeTable<'_>>, problems: &Problems) -> RawScopes {
        let Some(table) = table else { return RawScopes::default() };
        let fields = Fields::new(table.get_ref(), &SCOPES, &[&AUTH], problems);
        RawScopes {
            required: fields.get("required"),
            methods: fields.get("methods"),
            tools: fields.get("tools"),
            includes: fields.get("includes"),
        }
    }
}

impl<'a, 'i> FromValue<'a, 'i> for RawMtls {
    const WHAT: &'static str = "a table";

    fn read(value: &'a DeValue<'i>, _: &'static str, problems: &Problems) -> Option<Self> {
        let fields = Fields::new(value.as_table()?, &MTLS, &[&AUTH, &SCOPES], problems);
        Some(RawMtls { subject: fields.get("subject"), scopes: fields.get("scopes") })
    }
}

impl<'a, 'i> FromValue<'a, 'i> for RawProxy {
    const WHAT: &'static str = "a table";

    fn read(value: &'a DeValue<'i>, _: &'static str, problems: &Problems) -> Option<Self> {
        let table: &DeTable<'_> = value.as_table()?;
        let fields = Fields::new(table, &PROXY, &[&AUTH, &SCOPES], problems);
        Some(RawProxy {
            header: fields.get("header"),
            addresses: fields.get("addresses"),
            scopes: fields.get("scopes"),
            written: table.keys().map(|key| key.get_ref().to_string()).collect(),
        })
    }
}

impl RawIssuer {
    fn read(table: &DeTable<'_>, problems: &Problems) -> RawIssuer {
        let fields = Fields::new(table, &ISSUER, &[&AUTH, &SCOPES], problems);
        RawIssuer {
            issuer: fields.get("issuer"),
            audience: fields.get("audience"),
            algorithms: fields.get("algorithms"),
            jwks_url: fields.get("jwks_url"),
            introspection_url: fields.get("introspection_url"),
            client_id: fields.get("client_id"),
            client_secret: fields.get("client_secret"),
            leeway: fields.get("leeway"),
            plain_http: fields.get("plain_http"),
            written: table.keys().map(|key| key.get_ref().to_string()).collect(),
        }
    }

    /// Whether the key is there, with whatever value.
    pub(in crate::config) fn has(&self, key: &str) -> bool {
        self.written.iter().any(|written| written == key)
    }
}

impl RawToken {
    fn read(table: &DeTable<'_>, problems: &Problems) -> RawToken {
        let fields = Fields::new(table, &TOKEN, &[&AUTH, &SCOPES], problems);
        RawToken {
            name: fields.get("name"),
            sha256: fields.get("sha256"),
            scopes: fields.get("scopes"),
            written: table.keys().map(|key| key.get_ref().to_string()).collect(),
        }
    }

    /// Whether the key is there, with whatever value.
    pub(in crate::config) fn has(&self, key: &str) -> bool {
        self.written.iter().any(|written| written == key)
    }
}

impl<'a, 'i> FromValue<'a, 'i> for RawLists {
    const WHAT: &'static str = "a table of arrays of strings";

    fn read(value: &'a DeValue<'i>, key: &'static str, problems: &Problems) -> Option<Self> {
        let lists = value.as_table()?.iter().filter_map(|(name, value)| {
            let read = <Vec<Spanned<String>>>::read(value.get_ref(), key, problems);
            if read.is_none() {
                let found = with_article(value.get_ref().type_str());
                let what = format!("`{key}`: `{}` must be an array of strings, not {found}", name.get_ref());
                problems.add(value.span(), what);
            }
            Some((Spanned::new(name.span(), name.get_ref().to_string()), read?))
        });
        Some(RawLists(lists.collect()))
    }
}

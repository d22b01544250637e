//! Reads the fields of one table, and notes what does not belong there.
//!
//! The reading is not left to a derived `Deserialize`, because that stops at the first thing it dislikes, and a file
//! with three mistakes would take three attempts.

use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use super::error::Problems;
use super::nearest::nearest;

/// A key's value, if the key is there and its value is of the right type.
pub(super) type Entry<T> = Option<Spanned<T>>;

/// A kind of table: how it is called and which keys it may have.
#[derive(Debug)]
pub(super) struct Section {
    /// What the table is called in messages, such as `[defaults]`.
    pub(super) name: &'static str,
    /// The keys it may have.
    pub(super) keys: &'static [&'static str],
}

/// The fields of one table.
pub(super) struct Fields<'a, 'i> {
    table: &'a DeTable<'i>,
    section: &'static Section,
    problems: &'a Problems,
}

impl<'a, 'i> Fields<'a, 'i> {
    /// Reads a table of this kind. `elsewhere` are the other kinds, to say where a misplaced key belongs.
    pub(super) fn new(
        table: &'a DeTable<'i>,
        section: &'static Section,
        elsewhere: &[&'static Section],
        problems: &'a Problems,
    ) -> Self {
        for key in table.keys().filter(|key| !section.keys.contains(&key.get_ref().as_ref())) {
            let what = format!("unknown key `{}` in {}", key.get_ref(), section.name);
            problems.add_with_help(key.span(), what, advice(key.get_ref(), section, elsewhere));
        }
        Fields { table, section, problems }
    }

    /// The value of a key. One of another type is a problem.
    pub(super) fn get<T: FromValue<'a, 'i>>(&self, key: &'static str) -> Entry<T> {
        debug_assert!(
            self.section.keys.contains(&key),
            "{key} is missing in the keys of {}",
            self.section.name
        );
        let value = self.table.get(key)?;
        let read = T::read(value.get_ref(), key, self.problems);
        if read.is_none() {
            let found = with_article(value.get_ref().type_str());
            let what = format!("`{key}` must be {}, not {found}", T::WHAT);
            match hint(key, value.get_ref()) {
                Some(hint) => self.problems.add_with_help(value.span(), what, hint),
                None => self.problems.add(value.span(), what),
            }
        }
        Some(Spanned::new(value.span(), read?))
    }
}

/// What helps a writer who used a key that is not known here.
fn advice(key: &str, section: &Section, elsewhere: &[&Section]) -> String {
    if let Some(other) = elsewhere.iter().find(|other| other.keys.contains(&key)) {
        return format!("`{key}` belongs in {}", other.name);
    }
    if let Some(near) = nearest(key, section.keys) {
        return format!("did you mean `{near}`?");
    }
    let near = elsewhere.iter().find_map(|other| Some((nearest(key, other.keys)?, other.name)));
    if let Some((near, other)) = near {
        return format!("did you mean `{near}`, which belongs in {other}?");
    }
    format!("allowed in {}: {}", section.name, section.keys.join(", "))
}

/// The keys whose values are durations, which are easily written as mere numbers.
const DURATIONS: &[&str] = &[
    "keep_alive",
    "session_idle",
    "owner_session_idle",
    "replay_for",
    "stream_close_after",
    "stream_retry",
    "drain_grace",
    "stop_grace",
    "lease",
    "heartbeat",
    "store_poll",
    "head_timeout",
    "body_timeout",
    "inline_for",
    "run_limit",
    "idle_limit",
    "retention",
    "max_retention",
    "poll_interval",
    "timeout",
    "poll",
    "poll_max",
    "leeway",
];

/// What helps a writer who used a value of the wrong type, where we can guess why.
fn hint(key: &str, value: &DeValue<'_>) -> Option<String> {
    match (key, value) {
        ("command", DeValue::String(_)) => {
            Some("write each word as a string of its own: [\"npx\", \"-y\", \"some-server\"]".to_owned())
        }
        ("url", DeValue::Array(_)) => Some("write one address: \"https://…\"".to_owned()),
        ("scopes", DeValue::String(_)) => Some("write each scope as a string of its own: [\"…\"]".to_owned()),
        ("listen", DeValue::Integer(port)) => Some(format!("write the address, too: \"127.0.0.1:{port}\"")),
        ("allowed_hosts" | "allowed_origins", DeValue::String(_)) => {
            Some("write it in brackets: [\"…\"]".to_owned())
        }
        ("upstream", DeValue::Table(_)) => {
            Some("write [[upstream]], with two brackets on each side".to_owned())
        }
        (
            "max_message" | "max_result" | "replay_size" | "session_replay" | "output_limit",
            DeValue::Integer(_),
        ) => Some("write it in quotes and with its unit: \"16MiB\"".to_owned()),
        (
            "max_sessions" | "max_owner_sessions" | "session_requests" | "replay_events",
            DeValue::String(_),
        ) => Some("write it as a number, without quotes".to_owned()),
        (key, DeValue::Integer(number)) if DURATIONS.contains(&key) => {
            Some(format!("write it in quotes and with its unit: \"{number}s\""))
        }
        (_, DeValue::String(word)) if matches!(word.as_ref(), "true" | "false") => {
            Some(format!("write it without quotes: {word}"))
        }
        _ => None,
    }
}

/// Something that a value can be read as.
pub(super) trait FromValue<'a, 'i>: Sized {
    /// What the value must be, for messages.
    const WHAT: &'static str;

    /// Reads the value; nothing if it is of another type. Problems deeper inside it are noted here.
    fn read(value: &'a DeValue<'i>, key: &'static str, problems: &Problems) -> Option<Self>;
}

impl<'a, 'i> FromValue<'a, 'i> for String {
    const WHAT: &'static str = "a string";

    fn read(value: &'a DeValue<'i>, _: &'static str, _: &Problems) -> Option<Self> {
        value.as_str().map(str::to_owned)
    }
}

impl<'a, 'i> FromValue<'a, 'i> for i64 {
    const WHAT: &'static str = "a whole number";

    fn read(value: &'a DeValue<'i>, _: &'static str, _: &Problems) -> Option<Self> {
        let written = value.as_integer()?;
        // What does not fit is out of every range, too.
        Some(i64::from_str_radix(written.as_str(), written.radix()).unwrap_or(i64::MAX))
    }
}

impl<'a, 'i> FromValue<'a, 'i> for bool {
    const WHAT: &'static str = "true or false";

    fn read(value: &'a DeValue<'i>, _: &'static str, _: &Problems) -> Option<Self> {
        value.as_bool()
    }
}

impl<'a, 'i> FromValue<'a, 'i> for Vec<Spanned<String>> {
    const WHAT: &'static str = "an array of strings";

    fn read(value: &'a DeValue<'i>, key: &'static str, problems: &Problems) -> Option<Self> {
        let mut strings = Vec::new();
        for item in value.as_array()?.iter() {
            match item.get_ref().as_str() {
                Some(text) => strings.push(Spanned::new(item.span(), text.to_owned())),
                None => {
                    let found = with_article(item.get_ref().type_str());
                    let help = "write it in quotes";
                    problems.add_with_help(
                        item.span(),
                        format!("`{key}` has {found} among its strings"),
                        help,
                    );
                }
            }
        }
        Some(strings)
    }
}

impl<'a, 'i: 'a> FromValue<'a, 'i> for &'a DeTable<'i> {
    const WHAT: &'static str = "a table";

    fn read(value: &'a DeValue<'i>, _: &'static str, _: &Problems) -> Option<Self> {
        value.as_table()
    }
}

impl<'a, 'i: 'a> FromValue<'a, 'i> for &'a DeArray<'i> {
    const WHAT: &'static str = "an array of tables";

    fn read(value: &'a DeValue<'i>, _: &'static str, _: &Problems) -> Option<Self> {
        value.as_array()
    }
}

/// "a string", "an array".
pub(super) fn with_article(noun: &str) -> String {
    let article = if noun.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
    format!("{article} {noun}")
}

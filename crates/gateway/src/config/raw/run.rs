//! `[upstream.run]` as it was written.

use serde_json::{Map, Value};
use toml::Spanned;
use toml::de::DeValue;

use super::UPSTREAM;
use crate::config::error::Problems;
use crate::config::fields::{Entry, Fields, FromValue, Section, with_article};

/// The keys of `[upstream.run]`.
pub(in crate::config) const RUN: Section = Section {
    name: "[upstream.run]",
    keys: &[
        "tool",
        "command",
        "description",
        "input_schema",
        "stdin",
        "success",
        "exit_codes",
        "progress",
        "output",
        "output_schema",
        "output_limit",
        "stop_grace",
    ],
};

/// A command that is a tool.
#[derive(Debug)]
pub(in crate::config) struct RawRun {
    pub(in crate::config) tool: Entry<String>,
    pub(in crate::config) command: Entry<Vec<RawWords>>,
    pub(in crate::config) description: Entry<String>,
    pub(in crate::config) input_schema: Entry<Map<String, Value>>,
    pub(in crate::config) stdin: Entry<String>,
    pub(in crate::config) success: Entry<Vec<Spanned<i64>>>,
    pub(in crate::config) exit_codes: Entry<Vec<RawExit>>,
    pub(in crate::config) progress: Entry<String>,
    pub(in crate::config) output: Entry<String>,
    pub(in crate::config) output_schema: Entry<Map<String, Value>>,
    pub(in crate::config) output_limit: Entry<String>,
    pub(in crate::config) stop_grace: Entry<String>,
    /// Keys that are there, even if their values could not be read.
    pub(in crate::config) written: Vec<String>,
}

/// Words of a command line that are there together or not at all; a word that stands alone is one of these.
pub(in crate::config) type RawWords = Vec<Spanned<String>>;

/// What an exit code means.
#[derive(Debug)]
pub(in crate::config) struct RawExit {
    pub(in crate::config) code: Spanned<String>,
    pub(in crate::config) meaning: String,
}

impl<'a, 'i> FromValue<'a, 'i> for RawRun {
    const WHAT: &'static str = "a table";

    fn read(value: &'a DeValue<'i>, _: &'static str, problems: &Problems) -> Option<Self> {
        let table = value.as_table()?;
        let fields = Fields::new(table, &RUN, &[&UPSTREAM], problems);
        Some(RawRun {
            tool: fields.get("tool"),
            command: fields.get("command"),
            description: fields.get("description"),
            input_schema: fields.get("input_schema"),
            stdin: fields.get("stdin"),
            success: fields.get("success"),
            exit_codes: fields.get("exit_codes"),
            progress: fields.get("progress"),
            output: fields.get("output"),
            output_schema: fields.get("output_schema"),
            output_limit: fields.get("output_limit"),
            stop_grace: fields.get("stop_grace"),
            written: table.keys().map(|key| key.get_ref().to_string()).collect(),
        })
    }
}

impl<'a, 'i> FromValue<'a, 'i> for Vec<RawWords> {
    const WHAT: &'static str = "an array of strings";

    fn read(value: &'a DeValue<'i>, key: &'static str, problems: &Problems) -> Option<Self> {
        let mut words = Vec::new();
        for item in value.as_array()?.iter() {
            match item.get_ref() {
                DeValue::String(text) => words.push(vec![Spanned::new(item.span(), text.to_string())]),
                DeValue::Array(_) => words.extend(RawWords::read(item.get_ref(), key, problems)),
                other => {
                    let what = format!("`{key}` has {} among its strings", with_article(other.type_str()));
                    problems.add_with_help(item.span(), what, "write it in quotes");
                }
            }
        }
        Some(words)
    }
}

impl<'a, 'i> FromValue<'a, 'i> for Vec<Spanned<i64>> {
    const WHAT: &'static str = "an array of whole numbers";

    fn read(value: &'a DeValue<'i>, key: &'static str, problems: &Problems) -> Option<Self> {
        let mut numbers = Vec::new();
        for item in value.as_array()?.iter() {
            match i64::read(item.get_ref(), key, problems) {
                Some(number) => numbers.push(Spanned::new(item.span(), number)),
                None => {
                    let found = with_article(item.get_ref().type_str());
                    problems.add(item.span(), format!("`{key}` has {found} among its whole numbers"));
                }
            }
        }
        Some(numbers)
    }
}

impl<'a, 'i> FromValue<'a, 'i> for Vec<RawExit> {
    const WHAT: &'static str = "a table of exit codes";

    fn read(value: &'a DeValue<'i>, key: &'static str, problems: &Problems) -> Option<Self> {
        let mut exits = Vec::new();
        for (code, meaning) in value.as_table()?.iter() {
            match meaning.get_ref().as_str() {
                Some(meaning) => {
                    let code = Spanned::new(code.span(), code.get_ref().to_string());
                    exits.push(RawExit { code, meaning: meaning.to_owned() });
                }
                None => {
                    let what = format!("`{key}`: what {} means must be a string", code.get_ref());
                    problems.add_with_help(meaning.span(), what, "write it in quotes");
                }
            }
        }
        Some(exits)
    }
}

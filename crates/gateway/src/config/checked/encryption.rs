//! With which keys the store is encrypted.

use std::path::Path;

use taskgate_credentials::{Secret, Source};
use taskgate_engine::Key;
use toml::Spanned;

use super::{Surroundings, place};
use crate::config::raw::encryption::{RawEncryption, RawKey};

const HELP: &str = "one of { from_file = \"PATH\" }, { from_env = \"NAME\" } and { from_command = [\"…\"] }";

/// Where the keys are, the one that encrypts first; none if nothing is to be encrypted.
pub(super) fn check(raw: Option<&Spanned<RawEncryption>>, around: &Surroundings<'_>) -> Vec<Source> {
    let Some(raw) = raw else { return Vec::new() };
    match &raw.get_ref().keys {
        Some(keys) if !keys.get_ref().is_empty() => {
            keys.get_ref().iter().filter_map(|key| check_key(key, around)).collect()
        }
        _ => {
            let what = "[encryption] has no `keys`";
            around.problems.add_with_help(raw.span(), what, format!("keys = [{{ … }}], each {HELP}"));
            Vec::new()
        }
    }
}

fn check_key(key: &Spanned<RawKey>, around: &Surroundings<'_>) -> Option<Source> {
    let raw = key.get_ref();
    if raw.written != 1 {
        around.problems.add_with_help(key.span(), "a key comes from one place", format!("allowed: {HELP}"));
        return None;
    }
    let (source, value) = if let Some(path) = &raw.from_file {
        let whole = |text: &str| place::whole(Path::new(text), around);
        let path = around.parsed_at(path, "from_file", "the path of a file with the key in it", whole)?;
        let secret = Secret::File(path);
        let value = secret.read();
        (Source::Kept(secret), value)
    } else if let Some(name) = &raw.from_env {
        let value = (around.env)(name.get_ref()).map(|value| value.trim().to_owned());
        let missing = || format!("the environment variable {} is not set", name.get_ref().escape_debug());
        (
            Source::Kept(Secret::Env(name.get_ref().clone())),
            value.filter(|value| !value.is_empty()).ok_or_else(missing),
        )
    } else {
        let words: Vec<String> =
            raw.from_command.as_ref()?.get_ref().iter().map(|word| word.get_ref().clone()).collect();
        if words.first().is_none_or(String::is_empty) {
            around.problems.add(key.span(), "`from_command` names no program");
            return None;
        }
        // It is asked when the store is opened: who only checks a file has no use for the key.
        return Some(Source::Command(words));
    };
    let parsed =
        value.and_then(|text| Key::parse(&text).map_err(|wrong| format!("what is in {source} {wrong}")));
    match parsed {
        Ok(_) => Some(source),
        Err(why) => {
            around.problems.add(key.span(), format!("`keys`: {why}"));
            None
        }
    }
}

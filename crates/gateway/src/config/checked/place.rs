//! Paths, and where tasks are kept.

use std::path::{Path, PathBuf};

use super::Surroundings;
use crate::policy::{DatabaseUrl, StorePlace};

/// What [`store_place`] accepts, for messages.
pub(super) const ALLOWED: &str =
    "a path, \"sqlite:\" and a path, a URL that begins with \"postgres://\", or \"memory\"";

/// Reads where tasks are kept: `memory`, `sqlite:PATH` or just a path, or `postgres://…`. A relative path is left relative.
///
/// # Errors
///
/// What is wrong with the text, as the end of a sentence that begins with the text.
pub fn parse_store_place(text: &str) -> Result<StorePlace, String> {
    let path = match text.split_once(':') {
        _ if text == "memory" => return Ok(StorePlace::Memory),
        Some(("sqlite", path)) => path,
        Some(("postgres" | "postgresql", rest)) if rest.starts_with("//") => {
            return Ok(StorePlace::Postgres(DatabaseUrl::new(text)));
        }
        // A path may hold a colon, but nobody means a file by `mysql://…`.
        Some((kind, _)) if is_scheme(kind) => {
            return Err(format!("names the unknown kind of store `{kind}`"));
        }
        _ => text,
    };
    if path.is_empty() {
        return Err("names no file".to_owned());
    }
    if path == ":memory:" {
        return Err("would be a file of that name; write `memory` to keep tasks in no file".to_owned());
    }
    if path.ends_with('/') {
        return Err("names a directory, not a file".to_owned());
    }
    if path.contains('\0') {
        return Err("has a character that no path can have".to_owned());
    }
    Ok(StorePlace::Sqlite(PathBuf::from(path)))
}

/// [`parse_store_place`] for a configuration file, with its path made whole.
pub(super) fn store_place(text: &str, around: &Surroundings<'_>) -> Result<StorePlace, String> {
    Ok(match parse_store_place(text)? {
        StorePlace::Sqlite(path) => StorePlace::Sqlite(whole(&path, around)?),
        place @ (StorePlace::Postgres(_) | StorePlace::Memory) => place,
    })
}

/// A path of the file, taken from the file's directory and with `~` replaced, which only a shell would do for us.
pub(super) fn whole(path: &Path, around: &Surroundings<'_>) -> Result<PathBuf, String> {
    match path.strip_prefix("~") {
        Ok(below) => match (around.env)("HOME") {
            Some(home) if !home.is_empty() => Ok(Path::new(&home).join(below)),
            _ => Err("begins with `~`, but HOME is not set".to_owned()),
        },
        Err(_) => Ok(around.base.join(path)),
    }
}

/// Whether it looks like the first part of a URL. A single letter is a drive of Windows.
fn is_scheme(text: &str) -> bool {
    text.len() > 1 && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_a_path_or_memory() {
        let file = |path: &str| Ok(StorePlace::Sqlite(PathBuf::from(path)));
        assert_eq!(parse_store_place("memory"), Ok(StorePlace::Memory));
        assert_eq!(parse_store_place("sqlite:/a/b.db"), file("/a/b.db"));
        assert_eq!(parse_store_place("b.db"), file("b.db"));
        assert_eq!(parse_store_place("/a/b:c.db"), file("/a/b:c.db"));
        assert_eq!(parse_store_place("sqlite:memory"), file("memory"));
    }

    #[test]
    fn a_database_is_named_by_its_url_and_shown_without_its_password() {
        let url = "postgres://me:hunter2@db:5432/tasks?sslmode=require&password=hunter2";
        let Ok(StorePlace::Postgres(place)) = parse_store_place(url) else { panic!("a database") };
        assert_eq!(place.as_str(), url);
        assert_eq!(place.to_string(), "postgres://me@db:5432/tasks");
        assert!(!format!("{place:?}").contains("hunter2"));
        for (url, shown) in [
            ("postgresql://db/x", "postgresql://db/x"),
            ("postgres://me@db", "postgres://me@db"),
            ("postgres://me:p@ss@db/x", "postgres://me@db/x"),
        ] {
            assert_eq!(DatabaseUrl::new(url).to_string(), shown);
        }
    }

    #[test]
    fn other_kinds_and_missing_files_are_refused() {
        for text in [
            "",
            "sqlite:",
            "mysql://host/db",
            "postgres:db",
            "memory:",
            ":memory:",
            "sqlite::memory:",
            "dir/",
            "a\0b",
        ] {
            assert!(parse_store_place(text).is_err(), "{text:?}");
        }
    }
}

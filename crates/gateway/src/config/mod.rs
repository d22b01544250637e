//! The configuration file: what was written, and what it means once it has been found valid.
//!
//! A file is read in two steps. First its tables become raw structs, with the place of every value; then these are
//! checked and become the types the gateway works with. Both steps note whatever is wrong and go on, so that a file's
//! problems are all told at once.

mod checked;
mod duration;
mod error;
mod fields;
mod json;
pub mod limits;
mod nearest;
mod print;
mod raw;
mod raw_job;
#[cfg(test)]
mod tests;

use std::fs;
use std::path::Path;

use taskgate_reach::Reach;
use toml::de::DeTable;

pub use checked::{
    Config, DEFAULT_LISTEN, UpstreamConfig, UpstreamServer, UrlServer, check_name, check_single_user,
    parse_store_place, parse_task_mode,
};
pub use duration::{format_duration, format_size, parse_duration, parse_size};
pub use error::{ConfigErrors, ConfigProblem, FilePlace};

use checked::Surroundings;
use error::Problems;
use raw::RawConfig;

impl Config {
    /// Reads and checks a configuration file. Relative paths in it are taken from the file's directory.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with the file.
    pub fn load(path: impl AsRef<Path>) -> Result<Config, ConfigErrors> {
        let path = path.as_ref();
        let file = path.display().to_string();
        let bytes = fs::read(path)
            .map_err(|error| ConfigErrors::unreadable(file.clone(), format!("cannot be read: {error}")))?;
        let text = String::from_utf8(bytes).map_err(|error| {
            let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let line = 1 + valid.iter().filter(|byte| **byte == b'\n').count();
            ConfigErrors::unreadable(file.clone(), format!("is not UTF-8 text (line {line})"))
        })?;
        let base = path.parent().unwrap_or(Path::new(""));
        Config::parse_with(&text, &file, base, &|name| std::env::var(name).ok())
    }

    /// Checks a configuration that is already in memory. Relative paths in it are taken from the working directory.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with the text.
    pub fn parse(text: &str, file_name: &str) -> Result<Config, ConfigErrors> {
        Config::parse_with(text, file_name, Path::new(""), &|name| std::env::var(name).ok())
    }

    /// [`Config::parse`] with everything that is not in the text: the directory of relative paths and the
    /// environment variables.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with the text.
    pub fn parse_with(
        text: &str,
        file_name: &str,
        base: &Path,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Config, ConfigErrors> {
        let problems = Problems::default();
        let (table, syntax) = DeTable::parse_recoverable(text);
        if !syntax.is_empty() {
            // What was understood of a broken file is a guess, and checking it would report our own guesses as
            // the writer's mistakes. So these go first and alone.
            for error in syntax {
                let span = error.span().unwrap_or(text.len()..text.len());
                problems.add(span, format!("this is not valid TOML: {}", error.message()));
            }
            problems.into_result(text, file_name)?;
        }
        let problems = Problems::default();
        let raw = RawConfig::read(table.get_ref(), &problems);
        let has_public_url = raw.public_url.is_some();
        let config = checked::check(
            raw,
            &Surroundings { base, env, has_public_url, reach: Reach::default(), problems: &problems },
        );
        problems.into_result(text, file_name)?;
        Ok(config)
    }
}

use std::fmt;
use std::path::PathBuf;

use http::HeaderValue;

/// A value that must not be seen: where it comes from is known, what it is only where it is used.
#[derive(Clone, PartialEq, Eq)]
pub enum Secret {
    /// The value itself.
    Text(String),
    /// The value of a variable of our own environment.
    Env(String),
    /// The content of a file, read anew whenever it is needed: whoever renews it there need not tell anybody.
    File(PathBuf),
}

impl Secret {
    /// The value now. Blanks and line breaks around what is in a file or a variable are not part of it.
    ///
    /// # Errors
    ///
    /// Where it is missing and why, without the value.
    pub fn read(&self) -> Result<String, String> {
        let found = match self {
            Secret::Text(text) => return Ok(text.clone()),
            Secret::Env(name) => std::env::var(name).map_err(|_| format!("{self} is not set"))?,
            Secret::File(path) => {
                std::fs::read_to_string(path).map_err(|error| format!("{self} cannot be read: {error}"))?
            }
        };
        match found.trim() {
            "" => Err(format!("{self} is empty")),
            text => {
                crate::redact::know(text);
                Ok(text.to_owned())
            }
        }
    }

    /// The value as a header can carry it, behind `before`.
    ///
    /// # Errors
    ///
    /// What is wrong, without the value.
    pub fn header(&self, before: &str) -> Result<HeaderValue, String> {
        secret_header(&format!("{before}{}", self.read()?))
    }
}

/// A header value that is left out wherever headers are shown.
///
/// # Errors
///
/// What is wrong, without the value.
pub fn secret_header(text: &str) -> Result<HeaderValue, String> {
    let mut value = HeaderValue::from_str(text)
        .map_err(|_| "the value has a character that no header can have".to_owned())?;
    value.set_sensitive(true);
    Ok(value)
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Secret::Text(_) => f.write_str("a hidden text"),
            Secret::Env(name) => write!(f, "the environment variable {name}"),
            Secret::File(path) => write!(f, "the file {}", path.display()),
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({self})")
    }
}

use std::fmt;
use std::path::PathBuf;

use reqwest::header::HeaderValue;

/// A value that must not be seen: where it comes from is known, what it is only where it is used.
#[derive(Clone, PartialEq, Eq)]
pub enum Secret {
    /// The value itself.
    Text(String),
    /// The content of a file, read anew whenever it is needed: whoever renews it there need not tell anybody.
    File(PathBuf),
}

impl Secret {
    /// The value now. Line breaks around the content of a file are not part of it.
    ///
    /// # Errors
    ///
    /// What is wrong, without the value.
    pub fn read(&self) -> Result<String, String> {
        match self {
            Secret::Text(text) => Ok(text.clone()),
            Secret::File(path) => {
                let text = std::fs::read_to_string(path)
                    .map_err(|error| format!("the file {} cannot be read: {error}", path.display()))?;
                match text.trim() {
                    "" => Err(format!("the file {} is empty", path.display())),
                    text => Ok(text.to_owned()),
                }
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
pub(super) fn secret_header(text: &str) -> Result<HeaderValue, String> {
    let mut value = HeaderValue::from_str(text)
        .map_err(|_| "the value has a character that no header can have".to_owned())?;
    value.set_sensitive(true);
    Ok(value)
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Secret::Text(_) => f.write_str("Secret(hidden)"),
            Secret::File(path) => write!(f, "Secret(in {})", path.display()),
        }
    }
}

use std::fmt;
use std::path::PathBuf;

/// Where a secret is. It is read anew whenever it is needed, so that it can be changed, and it is never shown.
#[derive(Clone, PartialEq, Eq)]
pub enum Secret {
    /// In a variable of our own environment.
    Env(String),
    /// In a file, which may be replaced at any time.
    File(PathBuf),
}

impl Secret {
    /// The secret itself, without the line end a file may have.
    ///
    /// # Errors
    ///
    /// Where it is missing and why.
    pub fn read(&self) -> Result<String, String> {
        let found = match self {
            Secret::Env(name) => {
                std::env::var(name).map_err(|_| format!("the environment variable {name} is not set"))?
            }
            Secret::File(path) => std::fs::read_to_string(path)
                .map_err(|error| format!("the file {} cannot be read: {error}", path.display()))?,
        };
        let secret = found.trim_end_matches(['\r', '\n']);
        if secret.is_empty() {
            return Err(format!("{self} is empty"));
        }
        Ok(secret.to_owned())
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
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

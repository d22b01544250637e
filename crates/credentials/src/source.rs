use std::fmt;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use crate::Secret;

/// How long a command may take to say a secret.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where a secret comes from that is asked for once, at a start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Where secrets lie.
    Kept(Secret),
    /// What a command prints, such as the client of a key management service: its program and its arguments.
    Command(Vec<String>),
}

impl Source {
    /// The secret, without blanks and line breaks around it.
    ///
    /// # Errors
    ///
    /// Where it is missing and why, without the value.
    pub async fn read(&self) -> Result<String, String> {
        let words = match self {
            Source::Kept(secret) => return secret.read(),
            Source::Command(words) => words,
        };
        let (program, arguments) = words.split_first().ok_or_else(|| format!("{self} is empty"))?;
        let mut command = Command::new(program);
        // What it complains of is for whoever has started us.
        command.args(arguments).stdin(Stdio::null()).stderr(Stdio::inherit()).kill_on_drop(true);
        let output = tokio::time::timeout(PATIENCE, command.output()).await;
        let output = output.map_err(|_| format!("{self} took longer than {} s", PATIENCE.as_secs()))?;
        let output = output.map_err(|error| format!("{self} cannot be started: {error}"))?;
        if !output.status.success() {
            return Err(format!("{self} failed ({})", output.status));
        }
        match str::from_utf8(&output.stdout).map(str::trim) {
            Ok("") => Err(format!("{self} printed nothing")),
            Ok(text) => Ok(text.to_owned()),
            Err(_) => Err(format!("{self} printed something that is no text")),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Kept(secret) => secret.fmt(f),
            // Its arguments may be nobody's business.
            Source::Command(words) => {
                write!(f, "the command {}", words.first().map_or("without a program", String::as_str))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_command_says_a_secret() {
        let say = |script: &str| Source::Command(["sh", "-c", script].map(str::to_owned).to_vec());
        assert_eq!(say("echo; echo ' value '").read().await.as_deref(), Ok("value"));
        for (script, why) in [
            ("echo hidden; exit 3", "exit status: 3"),
            ("true", "printed nothing"),
            ("printf '\\377'", "no text"),
        ] {
            let said = say(script).read().await.expect_err("it fails");
            assert!(said.starts_with("the command sh ") && said.contains(why), "{said}");
            assert!(!said.contains("hidden"), "{said}");
        }
        let missing = Source::Command(vec!["/no/such/program".to_owned()]).read().await;
        assert!(missing.expect_err("it fails").contains("cannot be started"));
        assert!(Source::Command(Vec::new()).read().await.is_err());
    }
}

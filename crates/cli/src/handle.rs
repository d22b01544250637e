//! The way back to a task as one word that can be copied.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use taskgate_client::Handle;

use crate::endpoint::Named;

/// What every such word begins with, so that it is neither a name nor a URL nor an id. The number is that of the format.
const START: &str = "tg1_";

/// A handle, and how its server was named. Neither credentials nor command lines are in it, but the id of the task is: where a
/// server cannot tell its callers apart, whoever has it has the task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// The way back.
    pub handle: Handle,
    /// How the server can be found again; [`Named::Command`] where it has to be said again.
    pub named: Named,
}

/// As it is written: identity, name, version, task, tool, created, session.
#[derive(Serialize, Deserialize)]
struct Written(String, Option<String>, String, String, String, u64, #[serde(default)] Option<String>);

impl Token {
    /// The handle of a task at a server that was named so.
    pub fn new(handle: Handle, named: &Named) -> Token {
        let named = Named::again(&handle.endpoint, named.name().map(str::to_owned));
        Token { handle, named }
    }

    /// The word.
    pub fn write(&self) -> String {
        let name = self.named.name().map(str::to_owned);
        let Handle { endpoint, version, task, session, tool, created } = self.handle.clone();
        // Text and numbers can always be written.
        let text = serde_json::to_vec(&Written(endpoint, name, version, task, tool, created, session))
            .unwrap_or_default();
        format!("{START}{}", URL_SAFE_NO_PAD.encode(text))
    }

    /// Whether the word is meant as one.
    pub fn is_one(word: &str) -> bool {
        word.starts_with(START)
    }

    /// Reads the word.
    ///
    /// # Errors
    ///
    /// What is wrong, as the end of a sentence that begins with it.
    pub fn read(word: &str) -> Result<Token, String> {
        let text = word.strip_prefix(START).ok_or("is no handle")?;
        let text =
            URL_SAFE_NO_PAD.decode(text).map_err(|_| "is no whole handle; was it copied to its end?")?;
        let written = serde_json::from_slice(&text).map_err(|_| "is no handle of this taskgate")?;
        let Written(endpoint, name, version, task, tool, created, session) = written;
        let named = Named::again(&endpoint, name);
        Ok(Token { handle: Handle { endpoint, version, task, session, tool, created }, named })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handle(endpoint: &str) -> Handle {
        Handle {
            endpoint: endpoint.to_owned(),
            version: "2026-07-28".to_owned(),
            task: "ä \u{1}\"".to_owned(),
            session: Some("s".to_owned()),
            tool: "slow".to_owned(),
            created: 5,
        }
    }

    #[test]
    fn a_word_reads_back_and_says_how_its_server_is_found() {
        for (endpoint, named, found) in [
            ("http://x/mcp", Named::Url("http://x/mcp".to_owned()), Named::Url("http://x/mcp".to_owned())),
            ("command:npx#1", Named::Name("one".to_owned()), Named::Name("one".to_owned())),
            ("command:npx#1", Named::Command, Named::Command),
            // Case 37: a key in the URL is not in the handle.
            ("http://x/mcp#1", Named::Url("http://x/mcp?key=sesame".to_owned()), Named::Command),
        ] {
            let word = Token::new(handle(endpoint), &named).write();
            assert!(word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte)), "{word}");
            let token = Token::read(&word).expect("reads back");
            assert_eq!((token.handle, token.named), (handle(endpoint), found));
        }
    }

    #[test]
    fn what_is_no_handle_is_told_so() {
        let word = Token::new(handle("http://x/mcp"), &Named::Command).write();
        for (word, why) in [
            ("one", "no handle"),
            (&word[..word.len() - 3], "handle"),
            ("tg1_!", "copied"),
            ("tg1_e30", "this taskgate"),
        ] {
            assert!(Token::read(word).expect_err("no handle").contains(why), "{word}");
        }
    }
}

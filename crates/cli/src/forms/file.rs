//! Answers that stand in a file, for scripts.

use std::collections::VecDeque;
use std::path::Path;

use serde_json::Value;
use taskgate_client::{InputAnswer, InputKind};
use taskgate_gateway::Payload;

use super::schema::Form;
use crate::exit_code::{ExitCode, Failure};

/// What is to be answered: an object with an answer for each key (`*` for any other), or a list with the answers in their order.
#[derive(Debug, Default)]
pub struct AnswerFile {
    by_key: serde_json::Map<String, Value>,
    in_order: VecDeque<Value>,
}

impl AnswerFile {
    /// Reads the file; "-" is stdin.
    pub fn read(path: &Path) -> Result<AnswerFile, Failure> {
        let text = if path == Path::new("-") {
            std::io::read_to_string(std::io::stdin())
        } else {
            std::fs::read_to_string(path)
        };
        let wrong = |why: String| {
            Failure::new(ExitCode::Invalid, format!("the answers in {}: {why}", path.display()))
        };
        let text = text.map_err(|error| wrong(error.to_string()))?;
        AnswerFile::parse(&text).map_err(wrong)
    }

    pub(super) fn parse(text: &str) -> Result<AnswerFile, String> {
        match serde_json::from_str(text).map_err(|error| format!("they are no JSON: {error}"))? {
            Value::Object(by_key) => Ok(AnswerFile { by_key, in_order: VecDeque::new() }),
            Value::Array(answers) => {
                Ok(AnswerFile { by_key: serde_json::Map::new(), in_order: answers.into() })
            }
            _ => Err("they are neither an object nor a list".to_owned()),
        }
    }

    /// The answer to the question with this key, if there is one.
    ///
    /// # Errors
    ///
    /// Why what is there cannot be the answer.
    pub fn take(&mut self, key: &str, kind: &InputKind) -> Result<Option<InputAnswer>, String> {
        let value = self.by_key.get(key).or_else(|| self.by_key.get("*")).cloned();
        match value.or_else(|| self.in_order.pop_front()) {
            Some(value) => answer(value, kind).map(Some),
            None => Ok(None),
        }
    }
}

/// An answer as it stands in a file: `"decline"`, `"cancel"`, a whole result, or what a form asks for.
fn answer(value: Value, kind: &InputKind) -> Result<InputAnswer, String> {
    match (&value, kind) {
        (Value::String(word), _) if word == "decline" => Ok(InputAnswer::Decline),
        (Value::String(word), _) if word == "cancel" => Ok(InputAnswer::Cancel),
        (Value::Object(members), InputKind::Form { .. } | InputKind::Url { .. })
            if members.get("action").is_some_and(is_action) =>
        {
            whole(&value)
        }
        (Value::Object(members), InputKind::Form { schema, .. }) => {
            let form = Form::read(schema)?;
            let content = Value::Object(form.with_defaults(members.clone()));
            form.check(&content)?;
            Ok(InputAnswer::Accept(content))
        }
        (Value::Object(_), InputKind::Url { .. }) => Ok(InputAnswer::Accept(value)),
        (Value::Object(_), InputKind::Sampling | InputKind::Roots | InputKind::Other) => whole(&value),
        _ => Err("The answer is neither an object nor \"decline\" or \"cancel\".".to_owned()),
    }
}

fn is_action(value: &Value) -> bool {
    value.as_str().is_some_and(|word| ["accept", "decline", "cancel"].contains(&word))
}

fn whole(value: &Value) -> Result<InputAnswer, String> {
    Payload::from_value(value).map(InputAnswer::Result).map_err(|error| error.to_string())
}

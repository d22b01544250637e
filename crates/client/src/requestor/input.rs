use std::fmt;

use serde::Deserialize;
use serde_json::Value;
use taskgate_task::Payload;
use taskgate_wire::{RawObject, method};
use tokio::sync::oneshot;

/// What this client can be asked. Servers are told, and whatever else one asks is refused without asking anybody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Answers {
    /// Input by form.
    pub form: bool,
    /// Being sent to a URL.
    pub url: bool,
    /// A model's answer.
    pub sampling: bool,
    /// The roots of the client.
    pub roots: bool,
}

impl Answers {
    /// Input of people, by form and by URL.
    pub const ELICITATION: Answers = Answers { form: true, url: true, sampling: false, roots: false };

    /// As client capabilities.
    pub(super) fn capabilities(self) -> Value {
        let mut all = serde_json::Map::new();
        let mut elicitation = serde_json::Map::new();
        for (name, is_there) in [("form", self.form), ("url", self.url)] {
            if is_there {
                elicitation.insert(name.to_owned(), Value::Object(serde_json::Map::new()));
            }
        }
        if !elicitation.is_empty() {
            all.insert("elicitation".to_owned(), Value::Object(elicitation));
        }
        for (name, is_there) in [("sampling", self.sampling), ("roots", self.roots)] {
            if is_there {
                all.insert(name.to_owned(), Value::Object(serde_json::Map::new()));
            }
        }
        Value::Object(all)
    }
}

/// A question of the server about a call. It is asked once and answered once. Dropped without an answer, a question of a task
/// stays open for whoever resumes it or answers it by its key; one of a call that is no task is cancelled.
pub struct Input {
    /// What the question is known by. It stays the same should the server ask again because an answer was lost.
    pub key: String,
    /// `elicitation/create`, `sampling/createMessage`, `roots/list`.
    pub method: String,
    /// Its params.
    pub params: Option<Payload>,
    pub(super) reply: oneshot::Sender<InputAnswer>,
}

/// What a question wants.
#[derive(Debug, Clone, PartialEq)]
pub enum InputKind {
    /// A form to fill in.
    Form {
        /// What to tell the person.
        message: String,
        /// The JSON schema of what is asked for.
        schema: Value,
    },
    /// A URL to go to.
    Url {
        /// What to tell the person.
        message: String,
        /// Where to go.
        url: String,
    },
    /// A model's answer; the params say to what.
    Sampling,
    /// The roots of the client.
    Roots,
    /// Something that is not known here.
    Other,
}

/// An answer to a question.
#[derive(Clone, PartialEq)]
pub enum InputAnswer {
    /// The form, filled in; an empty object for a URL that was visited.
    Accept(Value),
    /// A result as it is to be sent: the answer of a model, roots, or an elicitation's result in full.
    Result(Payload),
    /// The person says no.
    Decline,
    /// The person does not say anything.
    Cancel,
    /// There will be no answer, and this is why.
    Refuse(String),
}

impl fmt::Debug for InputAnswer {
    /// What people enter is theirs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            InputAnswer::Accept(_) => "Accept(…)",
            InputAnswer::Result(_) => "Result(…)",
            InputAnswer::Decline => "Decline",
            InputAnswer::Cancel => "Cancel",
            InputAnswer::Refuse(_) => "Refuse(…)",
        })
    }
}

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Input");
        shown.field("key", &self.key).field("method", &self.method).finish_non_exhaustive()
    }
}

impl Input {
    /// What it wants.
    pub fn kind(&self) -> InputKind {
        InputKind::read(&self.method, self.params.as_ref())
    }

    /// The form, filled in: an object that fits the schema. For a URL, an empty object says that it was visited.
    pub fn answer(self, content: Value) {
        self.reply_with(InputAnswer::Accept(content));
    }

    /// The person says no.
    pub fn decline(self) {
        self.reply_with(InputAnswer::Decline);
    }

    /// The person does not say anything.
    pub fn cancel(self) {
        self.reply_with(InputAnswer::Cancel);
    }

    /// Any answer.
    pub fn reply_with(self, answer: InputAnswer) {
        // The call may be over; then nobody asks any more.
        let _ = self.reply.send(answer);
    }

    /// Waits until nobody wants the answer any more: the call is over, or the server has taken the question back.
    pub async fn withdrawn(&mut self) {
        self.reply.closed().await;
    }
}

impl InputKind {
    /// Of a question with this method and these params.
    pub fn read(name: &str, params: Option<&Payload>) -> InputKind {
        #[derive(Deserialize, Default)]
        #[serde(rename_all = "camelCase", default)]
        struct Shape {
            mode: Option<String>,
            message: Option<String>,
            requested_schema: Option<Value>,
            url: Option<String>,
        }
        let read = || params.and_then(|params| serde_json::from_str::<Shape>(params.as_str()).ok());
        match name {
            method::SAMPLE => InputKind::Sampling,
            method::ROOTS_LIST => InputKind::Roots,
            method::ELICIT => {
                let Shape { mode, message, requested_schema, url } = read().unwrap_or_default();
                let message = message.unwrap_or_default();
                match (mode.as_deref(), url) {
                    (Some("url"), Some(url)) => InputKind::Url { message, url },
                    (None | Some("form"), _) => {
                        InputKind::Form { message, schema: requested_schema.unwrap_or_default() }
                    }
                    _ => InputKind::Other,
                }
            }
            _ => InputKind::Other,
        }
    }
}

impl InputAnswer {
    /// As the result of a question with this method.
    ///
    /// # Errors
    ///
    /// Why there is none: only an elicitation has words for no.
    pub(super) fn into_result(self, name: &str) -> Result<Payload, String> {
        let is_elicitation = name == method::ELICIT;
        let action = |action: &str| serde_json::json!({ "action": action });
        let value = match self {
            InputAnswer::Result(result) => {
                return match RawObject::parse(result.as_str()) {
                    Ok(_) => Ok(result),
                    Err(error) => Err(format!("the answer is no object: {error}")),
                };
            }
            InputAnswer::Accept(content) if is_elicitation => {
                serde_json::json!({ "action": "accept", "content": content })
            }
            InputAnswer::Accept(content) if content.is_object() => content,
            InputAnswer::Accept(_) => return Err("the answer is no object".to_owned()),
            InputAnswer::Decline if is_elicitation => action("decline"),
            InputAnswer::Cancel | InputAnswer::Refuse(_) if is_elicitation => action("cancel"),
            InputAnswer::Decline => return Err("the user declined".to_owned()),
            InputAnswer::Cancel => return Err("nobody answered".to_owned()),
            InputAnswer::Refuse(why) => return Err(why),
        };
        Payload::from_value(&value).map_err(|error| error.to_string())
    }
}

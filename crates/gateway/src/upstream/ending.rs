//! What an upstream's answer means as the end of a call, and what people are told of it.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use taskgate_credentials::redact::redact;
use taskgate_engine::Ending;
use taskgate_task::{InvalidPayload, Outcome, Payload, Question};
use taskgate_wire::{RawObject, RpcError, meta};

use super::discreet;

/// What a result decides here. Every member is looked at on its own, so that one of a wrong type does not take the
/// rest of a result, and the work behind it, away from the caller.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResultShape<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    result_type: Option<&'a RawValue>,
    #[serde(borrow, default)]
    is_error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    input_requests: Option<&'a RawValue>,
    #[serde(borrow, default)]
    request_state: Option<&'a RawValue>,
}

/// Tells `null` from absent: only the absence of a `resultType` stands for "complete".
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// What a result means. A `resultType` that is not known makes it invalid, whatever the server's version: taken for a
/// result, a handle or a question of some other protocol would look like success.
pub fn ended(result: Payload) -> Ending {
    if !result.as_str().starts_with('{') {
        return failed_with("The server's result is no object");
    }
    let shape: ResultShape = match serde_json::from_str(result.as_str()) {
        Ok(shape) => shape,
        Err(error) => return failed_with(&format!("The server's result cannot be read: {error}")),
    };
    let kind = shape.result_type.map_or("\"complete\"", RawValue::get);
    if kind == "\"input_required\"" {
        let state = shape.request_state.map_or_else(Payload::null, Payload::from_raw);
        return match questions(shape.input_requests) {
            Ok(questions) => Ending::Asked { questions, state, raw: result },
            Err(error) => failed_with(&format!("The server's questions cannot be read: {error}")),
        };
    }
    if kind != "\"complete\"" {
        // "A resultType of any value unrecognized by the client MUST be considered invalid."
        let kind = short(kind.to_owned());
        return failed_with(&format!("The server answered with an unknown resultType: {kind}"));
    }
    // Only `true` says error. Whatever else stands there, the caller gets to see it, and a result is not called failed
    // on a guess.
    let is_error = shape.is_error.is_some_and(|said| said.get() == "true");
    let summary = if is_error { shape.content.and_then(first_text).map(clean) } else { None };
    Ending::Finished(Outcome::Result { body: result, is_error, summary })
}

fn questions(requests: Option<&RawValue>) -> Result<Vec<Question>, InvalidPayload> {
    let requests = requests.map(|raw| RawObject::parse(raw.get())).transpose()?.unwrap_or_default();
    requests.iter().map(|(key, request)| question(key, request)).collect()
}

/// A question as it is listed under its key.
pub fn question(key: &str, request: &RawValue) -> Result<Question, InvalidPayload> {
    #[derive(Deserialize)]
    struct Shape {
        method: String,
        #[serde(default)]
        params: Option<Payload>,
    }
    let shape: Shape = serde_json::from_str(request.get())?;
    let params = shape.params.map(meta::without_progress_token);
    Ok(Question { key: key.to_owned(), method: shape.method, params })
}

/// The end of a request that failed with this error object.
pub fn failed(body: Payload, summary: String) -> Ending {
    let body = discreet::error(body, redact);
    Ending::Finished(Outcome::Error { body, summary: clean(summary) })
}

/// The end of a call that its tool would not take, or whose result is none: a result, so that a model can read it and do
/// better (SEP-1303).
pub fn refused(message: &str) -> Ending {
    let message = &*redact(message);
    let content = serde_json::json!([{ "type": "text", "text": message }]);
    match Payload::from_value(&serde_json::json!({ "content": content, "isError": true })) {
        Ok(body) => {
            let summary = Some(short(message.to_owned()));
            Ending::Finished(Outcome::Result { body, is_error: true, summary })
        }
        Err(_) => failed_with(message),
    }
}

/// The end of a request that failed here, in words.
pub fn failed_with(message: &str) -> Ending {
    failed(RpcError::internal(message).to_payload(), message.to_owned())
}

/// What others say, without what is known as a secret.
fn clean(text: String) -> String {
    match redact(&text) {
        Cow::Borrowed(_) => text,
        Cow::Owned(clean) => clean,
    }
}

/// The message of an error object, short enough for a status line.
pub fn message_of(error: &Payload) -> String {
    #[derive(Deserialize)]
    struct Shape {
        message: String,
    }
    serde_json::from_str::<Shape>(error.as_str())
        .map_or_else(|_| "The server answered with an error.".to_owned(), |shape| short(shape.message))
}

/// The first text of a result's content, short enough for a status line.
fn first_text(content: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    struct Block {
        #[serde(default)]
        text: Option<String>,
    }
    let blocks: Vec<Block> = serde_json::from_str(content.get()).ok()?;
    blocks.into_iter().find_map(|block| block.text).map(short)
}

/// A text of a server's, short enough for a status line: it is stored and sent again and again.
pub fn short(text: String) -> String {
    cut(&text, 300)
}

/// The beginning of a text, up to so many characters, without what is known as a secret: of one that is cut in two nobody would know.
pub fn cut(text: &str, longest: usize) -> String {
    let text = redact(text);
    match text.char_indices().nth(longest) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into_owned(),
    }
}

/// Progress as a line for people: the message, else how far of how much.
pub fn progress_line(raw: &Payload) -> Option<String> {
    #[derive(Deserialize)]
    struct Shape<'a> {
        #[serde(default)]
        message: Option<String>,
        #[serde(borrow, default)]
        progress: Option<&'a RawValue>,
        #[serde(borrow, default)]
        total: Option<&'a RawValue>,
    }
    let shape: Shape = serde_json::from_str(raw.as_str()).ok()?;
    let far = match (shape.progress, shape.total) {
        (Some(progress), Some(total)) => Some(format!("{}/{}", progress.get(), total.get())),
        (Some(progress), None) => Some(progress.get().to_owned()),
        (None, _) => None,
    };
    match (shape.message, far) {
        (Some(message), _) if !message.is_empty() => Some(short(message)),
        (_, far) => far.map(|far| short(format!("Progress: {far}"))),
    }
}

//! What has become of a job, as the outcome of a call.

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use taskgate_engine::Ending;
use taskgate_task::{InvalidPayload, Outcome, Payload};
use taskgate_wire::RawObject;

use super::super::ending::{failed_with, short};

/// How much of what a job has written is shown when it failed, in characters.
const LOGS_SHOWN: usize = 4000;

/// A job that has a result. An object that it gives as a text stays as it was spelled.
pub fn completed(value: &Value) -> Ending {
    let (text, structured) = match value {
        Value::String(text) => (text.clone(), serde_json::from_str::<Box<RawValue>>(text).ok()),
        other => (other.to_string(), to_raw_value(other).ok()),
    };
    let body = || {
        let mut body = RawObject::default();
        body.set("content", to_raw_value(&json!([{ "type": "text", "text": text }]))?);
        body.set("isError", RawValue::FALSE.to_owned());
        if let Some(structured) = structured.filter(|value| value.get().starts_with('{')) {
            body.set("structuredContent", structured);
        }
        body.to_payload()
    };
    result(body(), false, None)
}

/// A job that failed, or was not begun because the API would not have it: whoever called may do better.
pub fn unsuccessful(why: &str, lines: &[String]) -> Ending {
    let mut content = vec![json!({ "type": "text", "text": why })];
    let written = lines.join("\n");
    if !written.trim().is_empty() {
        content.push(json!({ "type": "text", "text": end_of(&written) }));
    }
    let body = Payload::from_value(&json!({ "content": content, "isError": true }));
    result(body, true, Some(short(why.to_owned())))
}

fn result(body: Result<Payload, InvalidPayload>, is_error: bool, summary: Option<String>) -> Ending {
    match body {
        Ok(body) => Ending::Finished(Outcome::Result { body, is_error, summary }),
        Err(error) => failed_with(&format!("The job's result cannot be written as JSON: {error}")),
    }
}

/// The end of a text: of what a job says last, most is about why it ended.
fn end_of(text: &str) -> String {
    match text.char_indices().rev().nth(LOGS_SHOWN) {
        Some((before, _)) => format!("[…]{}", &text[before..]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(ending: Ending) -> (Value, bool, Option<String>) {
        let Ending::Finished(Outcome::Result { body, is_error, summary }) = ending else {
            panic!("{ending:?}")
        };
        (serde_json::from_str(body.as_str()).expect("JSON"), is_error, summary)
    }

    #[test]
    fn a_result_is_a_text_and_an_object_if_it_is_one() {
        let text = |text: &str| json!({"content": [{"type": "text", "text": text}], "isError": false});
        let with = |mut body: Value, structured: Value| {
            body["structuredContent"] = structured;
            body
        };
        for (value, expected) in [
            (json!("plain"), text("plain")),
            (json!("{\"a\": 1.0}"), with(text("{\"a\": 1.0}"), json!({"a": 1.0}))),
            (json!("[1]"), text("[1]")),
            (json!({"b": 2, "a": [1]}), with(text("{\"b\":2,\"a\":[1]}"), json!({"b": 2, "a": [1]}))),
            (json!([1, 2]), text("[1,2]")),
            (Value::Null, text("null")),
        ] {
            assert_eq!(body(completed(&value)), (expected, false, None));
        }
        let odd = r#"{"n": 12345678901234567890123, "e": 1E+2, "s": "\ud800", "a": 1, "a": 2}"#;
        let Ending::Finished(outcome) = completed(&json!(odd)) else { panic!("a result") };
        assert!(outcome.body().as_str().contains(&format!(r#""structuredContent":{odd}"#)), "{outcome:?}");
    }

    #[test]
    fn a_failure_says_why_and_what_was_written_last() {
        let lines = ["é".repeat(LOGS_SHOWN), "the end".to_owned()];
        let (body, is_error, summary) = body(unsuccessful("No luck", &lines));
        assert_eq!(
            (is_error, summary.as_deref(), &body["content"][0]["text"]),
            (true, Some("No luck"), &json!("No luck"))
        );
        let written = body["content"][1]["text"].as_str().expect("a text");
        assert!(written.starts_with("[…]é") && written.ends_with("\nthe end"), "{written}");
    }
}

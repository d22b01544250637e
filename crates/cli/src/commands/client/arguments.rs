//! The arguments of a call, as they are written on the command line.

use std::path::Path;

use serde_json::{Map, Value};

use crate::exit_code::{ExitCode, Failure};

/// A single argument.
#[derive(Debug, Clone, PartialEq)]
pub enum Given {
    /// `key=value`, which is whatever the tool's schema says that it is.
    Text(String),
    /// `key:=json`.
    Json(Value),
}

/// Reads words such as `key=value` and `key:=json`.
pub fn read(words: &[String]) -> Result<Vec<(String, Given)>, Failure> {
    words.iter().map(|word| one(word)).collect()
}

fn one(word: &str) -> Result<(String, Given), Failure> {
    let no_key =
        || invalid(format!("{word:?} is no argument; write key=value, or key:=json for what is no text"));
    let (key, value) = word.split_once('=').ok_or_else(no_key)?;
    if let Some(key) = key.strip_suffix(':') {
        let wrong = |error| invalid(format!("the value of {key:?} is no JSON: {error}"));
        return Ok((key.to_owned(), Given::Json(serde_json::from_str(value).map_err(wrong)?)));
    }
    if key.is_empty() { Err(no_key()) } else { Ok((key.to_owned(), Given::Text(value.to_owned()))) }
}

/// What `--json` gives: text, a file after an @, or stdin.
pub fn whole(text: &str) -> Result<Map<String, Value>, Failure> {
    let unreadable =
        |what: &dyn std::fmt::Display, error| invalid(format!("--json: {what} cannot be read: {error}"));
    let text = match text.strip_prefix('@') {
        Some(file) => std::fs::read_to_string(Path::new(file)).map_err(|error| unreadable(&file, error))?,
        None if text == "-" => {
            std::io::read_to_string(std::io::stdin()).map_err(|error| unreadable(&"stdin", error))?
        }
        None => text.to_owned(),
    };
    match serde_json::from_str(&text) {
        Ok(Value::Object(all)) => Ok(all),
        Ok(_) => Err(invalid("--json: the arguments of a tool are an object")),
        Err(error) => Err(invalid(format!("--json: this is no JSON: {error}"))),
    }
}

/// All of them together. What the schema of the tool says of a text decides what it becomes; without a word there it stays a text.
pub fn put_together(
    mut all: Map<String, Value>,
    given: Vec<(String, Given)>,
    schema: Option<&Value>,
) -> Result<Map<String, Value>, Failure> {
    for (key, given) in given {
        let value = match given {
            Given::Json(value) => value,
            Given::Text(text) => {
                let expected = schema.and_then(|schema| schema.get("properties")?.get(&key));
                typed(&text, expected)
                    .map_err(|wrong| invalid(format!("the argument {key:?} {wrong}: {text:?}")))?
            }
        };
        all.insert(key, value);
    }
    Ok(all)
}

fn typed(text: &str, schema: Option<&Value>) -> Result<Value, &'static str> {
    let types: Vec<&str> = match schema.and_then(|schema| schema.get("type")) {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let parsed = || serde_json::from_str::<Value>(text).ok();
    if types.is_empty() || types.contains(&"string") {
        return Ok(Value::String(text.to_owned()));
    }
    let fits = |value: &Value| {
        types.iter().any(|name| match *name {
            "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
            "number" => value.is_number(),
            "boolean" => value.is_boolean(),
            "array" => value.is_array(),
            "object" => value.is_object(),
            "null" => value.is_null(),
            _ => false,
        })
    };
    match parsed() {
        Some(value) if fits(&value) => Ok(value),
        _ => Err(match types[0] {
            "integer" => "must be a whole number",
            "number" => "must be a number",
            "boolean" => "must be true or false",
            "array" => "must be a list of JSON",
            "object" => "must be an object of JSON",
            _ => "is not what the tool's schema says",
        }),
    }
}

fn invalid(message: impl std::fmt::Display) -> Failure {
    Failure::new(ExitCode::Invalid, message)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn arguments(words: &[&str], schema: Option<&Value>) -> Result<Value, Failure> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        put_together(Map::new(), read(&words)?, schema).map(Value::Object)
    }

    #[test]
    fn what_is_typed_is_what_the_schema_says() {
        let schema = json!({"properties": {
            "n": {"type": "integer"}, "x": {"type": ["number", "null"]}, "b": {"type": "boolean"},
            "l": {"type": "array"}, "s": {"type": "string"}, "e": {"enum": ["1", "2"]}
        }});
        let all = ["n=3", "x=null", "b=true", "l=[1]", "s=4", "e=1", "other=5=6", "j:={\"a\":1}"];
        assert_eq!(
            arguments(&all, Some(&schema)),
            Ok(
                json!({"n": 3, "x": null, "b": true, "l": [1], "s": "4", "e": "1", "other": "5=6", "j": {"a": 1}})
            )
        );
        assert_eq!(arguments(&["n=3"], None), Ok(json!({"n": "3"})));
        for (word, why) in
            [("n=x", "whole number"), ("n=1.5", "whole number"), ("b=1", "true or false"), ("l=1", "list")]
        {
            let failure = arguments(&[word], Some(&schema)).expect_err(word);
            assert!(failure.code == ExitCode::Invalid && failure.message.contains(why), "{failure:?}");
        }
    }

    #[test]
    fn what_is_no_argument_is_told_so() {
        for (word, why) in [("alone", "key=value"), ("=1", "key=value"), ("a:=[", "is no JSON")] {
            assert!(arguments(&[word], None).expect_err(word).message.contains(why));
        }
        assert_eq!(whole("{\"a\": 1}").map(Value::Object), Ok(json!({"a": 1})));
        for text in ["[1]", "{", "@/nowhere/at/all"] {
            assert_eq!(whole(text).expect_err(text).code, ExitCode::Invalid);
        }
    }
}

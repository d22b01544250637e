//! What arguments a tool takes or what its results hold, and whether those of a call are such.

use std::fmt;

use serde_json::Value;
use taskgate_task::Payload;

/// The JSON Schema of a tool's arguments or results, compiled once.
///
/// With the feature `jsonschema` a call's arguments are held against it before anything is started. Without it callers are
/// told of the schema, and the command itself sees to what it is given.
#[derive(Clone)]
pub struct ToolSchema {
    written: Payload,
    #[cfg(feature = "jsonschema")]
    compiled: Option<std::sync::Arc<jsonschema::Validator>>,
}

/// Why a schema is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSchema {
    /// Arguments are an object, and clients refuse a tool whose schema is of anything else.
    #[error("is not of an object")]
    NotAnObject,
    /// It is not a schema, or refers to one that is not in it.
    #[error("is no valid JSON Schema: {0}")]
    Invalid(String),
}

impl ToolSchema {
    /// Any arguments.
    pub fn any() -> ToolSchema {
        let written = Payload::from_value(&serde_json::json!({ "type": "object" }));
        ToolSchema {
            written: written.unwrap_or_else(|_| Payload::null()),
            #[cfg(feature = "jsonschema")]
            compiled: None,
        }
    }

    /// This schema: of 2020-12, or what its `$schema` says. What it refers to is in it, nothing is fetched.
    ///
    /// # Errors
    ///
    /// If it is not one, or is not one of an object.
    pub fn new(schema: &Value) -> Result<ToolSchema, InvalidSchema> {
        if schema.get("type").and_then(Value::as_str) != Some("object") {
            return Err(InvalidSchema::NotAnObject);
        }
        let written =
            Payload::from_value(schema).map_err(|error| InvalidSchema::Invalid(error.to_string()))?;
        Ok(ToolSchema {
            written,
            #[cfg(feature = "jsonschema")]
            compiled: Some(std::sync::Arc::new(checked::compile(schema)?)),
        })
    }

    /// The schema as it is told to callers.
    pub fn as_payload(&self) -> &Payload {
        &self.written
    }

    /// Whether the arguments, a JSON object, are such.
    ///
    /// # Errors
    ///
    /// Which are not and why, in words for whoever sent them. What they hold is not repeated: it may be a secret.
    #[cfg(feature = "jsonschema")]
    pub fn check(&self, arguments: &str) -> Result<(), String> {
        let Some(compiled) = &self.compiled else { return Ok(()) };
        let arguments: Value =
            serde_json::from_str(arguments).map_err(|error| format!("they cannot be read: {error}"))?;
        checked::check(compiled, &arguments)
    }

    /// Without the feature `jsonschema` all are.
    #[cfg(not(feature = "jsonschema"))]
    pub fn check(&self, _arguments: &str) -> Result<(), String> {
        Ok(())
    }
}

/// What whoever has sent them is told of arguments that a tool does not take.
pub fn invalid_arguments(tool: &str, why: &str) -> String {
    format!("Invalid arguments for {tool}: {why}")
}

impl PartialEq for ToolSchema {
    fn eq(&self, other: &ToolSchema) -> bool {
        self.written == other.written
    }
}

impl fmt::Debug for ToolSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.written.as_str())
    }
}

#[cfg(feature = "jsonschema")]
mod checked {
    use std::error::Error;

    use jsonschema::{Retrieve, Uri, Validator};
    use serde_json::Value;

    use super::InvalidSchema;

    /// How many faults are told at a time. Who has more has misread the schema.
    const MOST_FAULTS: usize = 8;
    /// The longest description of one of them, in characters: it may name what the caller has named.
    const LONGEST_FAULT: usize = 300;

    /// A check must not depend on who can be reached, nor reach out to wherever a schema says.
    struct Nowhere;

    impl Retrieve for Nowhere {
        fn retrieve(&self, _: &Uri<String>) -> Result<Value, Box<dyn Error + Send + Sync>> {
            Err("schemas are not fetched; write it under `$defs` of this one".into())
        }
    }

    pub(super) fn compile(schema: &Value) -> Result<Validator, InvalidSchema> {
        let compiled = jsonschema::options().with_retriever(Nowhere).build(schema);
        compiled.map_err(|error| {
            let place = error.instance_path().as_str();
            let at = if place.is_empty() { String::new() } else { format!("at {place}: ") };
            InvalidSchema::Invalid(format!("{at}{error}"))
        })
    }

    pub(super) fn check(compiled: &Validator, arguments: &Value) -> Result<(), String> {
        let mut faults = compiled.iter_errors(arguments).map(|error| {
            let (place, what) = (error.instance_path().as_str(), error.masked());
            let fault = if place.is_empty() { what.to_string() } else { format!("{place}: {what}") };
            super::super::ending::cut(&fault, LONGEST_FAULT)
        });
        let mut told: Vec<String> = faults.by_ref().take(MOST_FAULTS).collect();
        if told.is_empty() {
            return Ok(());
        }
        if faults.next().is_some() {
            told.push("and more".to_owned());
        }
        Err(told.join("; "))
    }
}

#[cfg(all(test, feature = "jsonschema"))]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> ToolSchema {
        let schema = json!({
            "type": "object",
            "properties": {
                "to": { "type": "integer" },
                "token": { "type": "string", "maxLength": 2 },
                "many": { "type": "array", "items": { "$ref": "#/$defs/word" } },
            },
            "required": ["to"],
            "additionalProperties": false,
            "$defs": { "word": { "enum": ["a", "b"] } },
        });
        ToolSchema::new(&schema).expect("a schema")
    }

    /// CASE 6: a model can mend its call, since it hears which argument is wrong and why.
    #[test]
    fn a_fault_names_the_argument_and_not_what_it_holds() {
        assert_eq!(schema().check(r#"{"to": 3, "many": ["a"]}"#), Ok(()));
        let fault = |arguments| schema().check(arguments).expect_err("is refused");
        assert_eq!(fault(r#"{"to": "x"}"#), r#"/to: value is not of type "integer""#);
        assert_eq!(fault("{}"), r#""to" is a required property"#);
        let fault = fault(r#"{"to": 1, "token": "sesame", "many": ["a", "c"], "odd": 1}"#);
        for words in ["/token: ", "/many/1: ", "'odd'"] {
            assert!(fault.contains(words), "{fault}");
        }
        assert!(!fault.contains("sesame"), "{fault}");
    }

    #[test]
    fn what_is_told_is_bounded() {
        let many = json!({ "to": 1, "many": vec!["x"; 1000] }).to_string();
        let fault = schema().check(&many).expect_err("is refused");
        assert!(fault.ends_with("; and more") && fault.len() < 600, "{fault}");
        let long = json!({ "to": 1, "x".repeat(100_000): 1 }).to_string();
        assert!(schema().check(&long).expect_err("is refused").chars().count() <= 301);
    }

    #[test]
    fn any_arguments_are_any() {
        assert_eq!(ToolSchema::any().check(r#"{"a": [1]}"#), Ok(()));
    }

    #[test]
    fn a_schema_is_refused_with_the_place_and_nothing_is_fetched() {
        let invalid = |schema: Value| ToolSchema::new(&schema).expect_err("is refused").to_string();
        assert_eq!(invalid(json!({ "type": "string" })), "is not of an object");
        let text = invalid(json!({ "type": "object", "properties": { "a": { "minLength": -1 } } }));
        assert!(text.contains("at /properties/a/minLength: -1"), "{text}");
        for uri in ["http://127.0.0.1:1/x", "file:///etc/passwd"] {
            let text = invalid(json!({ "type": "object", "properties": { "a": { "$ref": uri } } }));
            assert!(text.contains(uri) && text.contains("$defs"), "{text}");
        }
    }

    #[test]
    fn an_older_draft_is_understood() {
        let schema = json!({
            "$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "required": ["a"],
        });
        assert!(ToolSchema::new(&schema).expect("a schema").check("{}").is_err());
    }
}

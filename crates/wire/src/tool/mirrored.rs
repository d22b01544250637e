//! Whether a definition says in a valid way which arguments go into headers (2026-07-28, "x-mcp-header"). Over HTTP a tool that
//! does not is to be left out of the list.

use std::collections::HashSet;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

const MARK: &str = "x-mcp-header";
/// No schema that people write is deeper.
const DEEPEST: usize = 64;

/// What is wrong with the headers of a tool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unmirrored {
    /// The name of a header is no token (RFC 9110, 5.6.2).
    #[error("{0} cannot be a part of a header's name")]
    Name(String),
    /// Two arguments would go into the same header.
    #[error("two arguments go into the header {0:?}")]
    Twice(String),
    /// Only strings, integers and booleans can go into headers.
    #[error("the header {0:?} is of an argument that is no string, integer or boolean")]
    Type(String),
    /// The argument cannot be found by names of properties alone.
    #[error("a header is asked for where no argument is at a fixed place")]
    Place,
}

/// Checks the definition of a tool; one whose schema cannot be read asks for no headers.
pub fn check_mirrored(definition: &RawValue) -> Result<(), Unmirrored> {
    // Looking at the text is cheaper than reading it, and hardly any tool has one.
    if !definition.get().contains(MARK) {
        return Ok(());
    }
    let Ok(definition) = serde_json::from_str::<Value>(definition.get()) else { return Ok(()) };
    match definition.get("inputSchema").and_then(Value::as_object) {
        Some(schema) => property(schema, true, DEEPEST, &mut HashSet::new()),
        None => Ok(()),
    }
}

/// A schema at a fixed place.
fn property(
    schema: &Map<String, Value>,
    is_root: bool,
    depth: usize,
    seen: &mut HashSet<String>,
) -> Result<(), Unmirrored> {
    if depth == 0 {
        return Err(Unmirrored::Place);
    }
    for (key, value) in schema {
        match (key.as_str(), value) {
            (MARK, _) if is_root => return Err(Unmirrored::Place),
            (MARK, name) => {
                let Some(name) = name.as_str().filter(|name| !name.is_empty() && name.bytes().all(is_token))
                else {
                    return Err(Unmirrored::Name(name.to_string()));
                };
                let kind = schema.get("type").and_then(Value::as_str);
                if !matches!(kind, Some("string" | "integer" | "boolean")) {
                    return Err(Unmirrored::Type(name.to_owned()));
                }
                if !seen.insert(name.to_ascii_lowercase()) {
                    return Err(Unmirrored::Twice(name.to_owned()));
                }
            }
            ("properties", Value::Object(properties)) => {
                for schema in properties.values().filter_map(Value::as_object) {
                    property(schema, false, depth - 1, seen)?;
                }
            }
            // These hold values, in which the word means nothing.
            ("const" | "default" | "enum" | "examples", _) => {}
            (_, other) => elsewhere(other, depth - 1)?,
        }
    }
    Ok(())
}

/// Whatever else a schema holds: no argument there is at a fixed place.
fn elsewhere(value: &Value, depth: usize) -> Result<(), Unmirrored> {
    match value {
        Value::Object(_) | Value::Array(_) if depth == 0 => Err(Unmirrored::Place),
        Value::Object(members) if members.contains_key(MARK) => Err(Unmirrored::Place),
        Value::Object(members) => members.values().try_for_each(|value| elsewhere(value, depth - 1)),
        Value::Array(items) => items.iter().try_for_each(|value| elsewhere(value, depth - 1)),
        _ => Ok(()),
    }
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_checked_as_the_protocol_demands() {
        let check = |schema: &str| {
            let tool = RawValue::from_string(format!(r#"{{"name":"t","inputSchema":{schema}}}"#));
            check_mirrored(&tool.expect("JSON"))
        };
        let of = |properties: &str| check(&format!(r#"{{"type":"object","properties":{properties}}}"#));
        let marked = |kind: &str, name: &str| format!(r#"{{"type":{kind},"x-mcp-header":{name}}}"#);
        for kind in ["\"string\"", "\"integer\"", "\"boolean\""] {
            assert_eq!(
                of(&format!(r#"{{"a":{{"properties":{{"b":{}}}}}}}"#, marked(kind, "\"A-1\""))),
                Ok(())
            );
        }
        for kind in ["\"number\"", "\"object\"", "\"array\"", "[\"string\"]", "null"] {
            let seen = of(&format!(r#"{{"a":{}}}"#, marked(kind, "\"A\"")));
            assert_eq!(seen, Err(Unmirrored::Type("A".to_owned())), "{kind}");
        }
        for name in [r#""""#, r#""a b""#, r#""a:""#, r#""é""#, r#""a\r\n""#, "7", "null"] {
            let seen = of(&format!(r#"{{"a":{}}}"#, marked("\"string\"", name)));
            assert!(matches!(seen, Err(Unmirrored::Name(_))), "{name}: {seen:?}");
        }
        let one = marked("\"string\"", "\"A\"");
        let twice = format!(r#"{{"a":{one},"b":{}}}"#, marked("\"string\"", "\"a\""));
        assert!(matches!(of(&twice), Err(Unmirrored::Twice(_))));
        for schema in [
            r#"{"x-mcp-header":"A","type":"string"}"#.to_owned(),
            format!(r#"{{"properties":{{"l":{{"items":{one}}}}}}}"#),
            format!(r#"{{"anyOf":[{{"properties":{{"a":{one}}}}}]}}"#),
            format!(r#"{{"$defs":{{"a":{one}}}}}"#),
        ] {
            assert_eq!(check(&schema), Err(Unmirrored::Place), "{schema}");
        }
        assert_eq!(of(r#"{"a":{"type":"object","default":{"x-mcp-header":"A"}}}"#), Ok(()));
        assert_eq!(check("7"), Ok(()));
    }
}

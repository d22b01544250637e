//! What a host may tell its model as soon as a call has become a task: a text of the configuration's, in which `{{name}}` stands
//! for an argument of the call.

use serde_json::value::RawValue;
use serde_json::{Map, Value};
use taskgate_credentials::redact::REDACTED;

/// How much of one argument is shown, in characters. What is longer is no name of a thing but the thing.
const LONGEST_ARGUMENT: usize = 200;

/// Whether a text can be one.
///
/// # Errors
///
/// What is wrong with it, as the end of a sentence that begins with it.
pub fn check(text: &str) -> Result<(), String> {
    let mut rest = text;
    while let Some((_, after)) = rest.split_once("{{") {
        let (name, behind) =
            after.split_once("}}").ok_or("opens braces with \"{{\" and does not close them")?;
        if name.trim().is_empty() || name.contains('{') {
            return Err("has braces without the name of an argument in them".to_owned());
        }
        rest = behind;
    }
    Ok(())
}

/// The text for a call with these arguments. One that was not given leaves nothing; control characters do not get through. Of one that is
/// a secret, or has one in it, nothing is shown: what is cut short could not be found in the text any more.
pub fn fill(text: &str, arguments: Option<&RawValue>, is_secret: impl Fn(&str) -> bool) -> String {
    if !text.contains("{{") {
        return text.to_owned();
    }
    let given = arguments.and_then(|raw| serde_json::from_str::<Map<String, Value>>(raw.get()).ok());
    let given = given.unwrap_or_default();
    let (mut filled, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("{{") {
        let Some((name, behind)) = after.split_once("}}") else { break };
        filled.push_str(before);
        let shown = match given.get(name.trim()) {
            None | Some(Value::Null) => String::new(),
            Some(_) if is_secret(name.trim()) => REDACTED.to_owned(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        };
        let mut plain = shown.chars().filter(|char| !char.is_control());
        filled.extend(plain.by_ref().take(LONGEST_ARGUMENT));
        if plain.next().is_some() {
            filled.push('…');
        }
        rest = behind;
    }
    filled.push_str(rest);
    filled
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(text: &str, arguments: &str) -> String {
        let raw = RawValue::from_string(arguments.to_owned()).expect("JSON");
        fill(text, Some(&raw), |name| name == "secret")
    }

    #[test]
    fn arguments_stand_in_their_places_and_nothing_else_is_replaced() {
        let text = "Building {{ branch }} ({{n}}, {{list}}){{gone}}{{null}}.";
        let arguments = r#"{"branch":"a}}{{n}}","n":1.50,"list":[1,"x"],"null":null}"#;
        assert_eq!(filled(text, arguments), "Building a}}{{n}} (1.5, [1,\"x\"]).");
        assert_eq!(filled("{{a}}", r#"{"a":"x\u001b[31m\ny"}"#), "x[31my");
        assert_eq!(filled("{{secret}} {{a}}", r#"{"secret":"abc","a":1}"#), "[redacted] 1");
        let long = format!(r#"{{"a":"{}"}}"#, "é".repeat(300));
        assert_eq!(filled("{{a}}", &long), format!("{}…", "é".repeat(200)));
        assert_eq!(fill("{{a}}!", None, |_| false), "!");
        assert_eq!(fill("plain }}", None, |_| false), "plain }}");
    }

    #[test]
    fn braces_are_closed_and_hold_a_name() {
        for good in ["", "a", "{{a}}", "{{ a b }} }} {", "{a}"] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for bad in ["{{", "{{a", "{{}}", "{{ }}", "{{{a}}", "{{a}} {{"] {
            assert!(check(bad).is_err(), "{bad}");
        }
    }
}

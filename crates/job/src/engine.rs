//! The one language of templates and expressions, set up once for each way of treating what is missing.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use minijinja::{AutoEscape, Environment, Error, ErrorKind, Output, State, UndefinedBehavior, Value};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// What stands for an empty text inserted into a URL until it is known whether it may: no URL has this character.
pub const EMPTY: char = '\0';

/// Everything but what RFC 3986 calls unreserved: an inserted value is one piece of a URL and ends no other.
const INSERTED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// For what must be there: a missing value is an error.
pub static STRICT: LazyLock<Environment<'static>> =
    LazyLock::new(|| environment(UndefinedBehavior::Strict, insert));
/// For what may be missing: a missing value is nothing.
pub static LENIENT: LazyLock<Environment<'static>> =
    LazyLock::new(|| environment(UndefinedBehavior::Chainable, insert));
/// Shows the form of a body without any values.
pub static TRIAL: LazyLock<Environment<'static>> =
    LazyLock::new(|| environment(UndefinedBehavior::Chainable, |out, _, _| Ok(out.write_str("\"x\"")?)));

fn environment(
    missing: UndefinedBehavior,
    formatter: fn(&mut Output<'_>, &mut State<'_, '_>, &Value) -> Result<(), Error>,
) -> Environment<'static> {
    let mut environment = Environment::new();
    // They give the names of templates and of this program's insides away, and nobody needs them.
    ["debug", "range", "dict", "namespace"].into_iter().for_each(|name| environment.remove_global(name));
    environment.set_undefined_behavior(missing);
    environment.set_debug(true);
    environment.set_auto_escape_callback(|name| match name {
        "json" => AutoEscape::Json,
        "url" => AutoEscape::Custom("url".into()),
        "form" => AutoEscape::Custom("form".into()),
        _ => AutoEscape::None,
    });
    environment.set_formatter(formatter);
    environment.add_filter("fromjson", from_json);
    environment.add_filter("jsontext", |value: Value| json_text(&value));
    environment.add_filter("urlencode", |value: Value| Ok::<_, Error>(percent(&plain(&value)?)));
    environment.add_filter("b64encode", |value: Value| Ok::<_, Error>(STANDARD.encode(plain(&value)?)));
    environment.add_filter("b64decode", from_base64);
    environment
}

/// Writes an inserted value so that it stays one value, whatever it is.
fn insert(out: &mut Output<'_>, state: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    if value.is_undefined() {
        return Err(Error::from(ErrorKind::UndefinedError));
    }
    if value.is_safe() {
        return Ok(out.write_str(value.as_str().unwrap_or_default())?);
    }
    match state.auto_escape() {
        AutoEscape::Json => {
            out.write_str(&json_text(value)?)?;
        }
        AutoEscape::Custom(name) => {
            let text = plain(value)?;
            if text.is_empty() && *name == *"url" {
                out.write_str(EMPTY.encode_utf8(&mut [0; 4]))?;
            }
            out.write_str(&percent(&text))?;
        }
        _ => out.write_str(&plain(value)?)?,
    }
    Ok(())
}

/// A text as one piece of a URL or a form.
pub fn percent(text: &str) -> String {
    utf8_percent_encode(text, INSERTED).to_string()
}

/// A value as the text that stands for it where there is no JSON.
fn plain(value: &Value) -> Result<String, Error> {
    use minijinja::value::ValueKind;
    match value.kind() {
        ValueKind::String | ValueKind::Number | ValueKind::Bool => Ok(value.to_string()),
        kind => {
            let what = format!("{kind} cannot be inserted here: only texts, numbers, true and false can");
            Err(Error::new(ErrorKind::InvalidOperation, what))
        }
    }
}

/// A value as a text that is JSON: where an API wants JSON inside a text.
fn json_text(value: &Value) -> Result<String, Error> {
    serde_json::to_string(value).map_err(|error| Error::new(ErrorKind::BadSerialization, error.to_string()))
}

fn from_json(text: &str) -> Result<Value, Error> {
    let parsed: serde_json::Value = serde_json::from_str(text)
        .map_err(|error| Error::new(ErrorKind::InvalidOperation, format!("this is no JSON: {error}")))?;
    Ok(value_of(&parsed))
}

fn from_base64(text: &str) -> Result<String, Error> {
    let wrong = |what: String| Error::new(ErrorKind::InvalidOperation, what);
    let bytes = STANDARD.decode(text).map_err(|error| wrong(format!("this is no base64: {error}")))?;
    String::from_utf8(bytes).map_err(|_| wrong("what the base64 stands for is no text".to_owned()))
}

/// Anything that can be JSON, as a value of the language.
pub fn value_of<T: serde::Serialize>(what: &T) -> Value {
    Value::from(minijinja::value::Serde(what))
}

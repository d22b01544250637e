use std::sync::Arc;

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

/// JSON that is not ours: kept and passed on as the text it arrived in, byte for byte.
///
/// Unknown fields, member order and the spelling of numbers survive because nothing is ever re-typed.
/// Clones share the text.
#[derive(Debug, Clone)]
pub struct Payload(Arc<Box<RawValue>>);

/// The text is not one JSON value.
#[derive(Debug, thiserror::Error)]
#[error("not a JSON value: {}", what_is_wrong(.0))]
pub struct InvalidPayload(#[from] serde_json::Error);

/// What is wrong with a JSON text, and where. The parser repeats a text that stands in the place of something else; here it is cut
/// short, so that an error never repeats a megabyte to its reader.
pub fn what_is_wrong(error: &serde_json::Error) -> String {
    const START: usize = 160;
    const END: usize = 80;
    let said = error.to_string();
    if said.len() <= START + END {
        return said;
    }
    let (start, end) = (said.floor_char_boundary(START), said.ceil_char_boundary(said.len() - END));
    format!("{} … {}", &said[..start], &said[end..])
}

impl Payload {
    /// Checks that `text` is one JSON value and keeps it.
    pub fn parse(text: String) -> Result<Self, InvalidPayload> {
        Ok(Payload(Arc::new(RawValue::from_string(text)?)))
    }

    /// Keeps a value that is already known to be JSON.
    pub fn from_raw(raw: &RawValue) -> Self {
        Payload(Arc::new(raw.to_owned()))
    }

    /// Writes `value` as JSON. Fails only for values that JSON cannot express, such as maps with keys
    /// that are not strings.
    pub fn from_value<T: Serialize + ?Sized>(value: &T) -> Result<Self, InvalidPayload> {
        Ok(Payload(Arc::new(serde_json::value::to_raw_value(value)?)))
    }

    /// JSON `null`.
    pub fn null() -> Self {
        Payload(Arc::new(RawValue::NULL.to_owned()))
    }

    /// The JSON text.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// The JSON as a value that serializes as itself.
    pub fn as_raw(&self) -> &RawValue {
        &self.0
    }
}

impl PartialEq for Payload {
    /// Clones are equal at a glance, however long they are.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.as_str() == other.as_str()
    }
}

impl Eq for Payload {}

impl From<Box<RawValue>> for Payload {
    fn from(raw: Box<RawValue>) -> Self {
        Payload(Arc::new(raw))
    }
}

impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> serde::Deserialize<'de> for Payload {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(Payload::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_where_it_is_and_repeats_little() {
        for (text, shown) in
            [("7".to_owned(), "integer `7`"), (format!("\"{}\"", "é".repeat(100_000)), "éé … éé")]
        {
            let error = serde_json::from_str::<Vec<u8>>(&text).expect_err("no array");
            let said = what_is_wrong(&error);
            assert!(said.len() < 300 && said.contains(shown), "{said}");
            assert!(said.ends_with(&format!("at line 1 column {}", error.column())), "{said}");
        }
    }
}

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
#[error("not a JSON value: {0}")]
pub struct InvalidPayload(#[from] serde_json::Error);

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

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use taskgate_task::Payload;

/// A request id: a JSON string or number, kept as it was spelled.
///
/// `1` and `"1"` are different ids, and 2^53 comes back as 2^53 because it is never made a float.
#[derive(Debug, Clone)]
pub struct Id(Payload);

impl Id {
    /// The id written as this number.
    pub fn number(number: u64) -> Self {
        // A number always reads as JSON, so the fallback is never taken.
        Id(Payload::parse(number.to_string()).unwrap_or_else(|_| Payload::null()))
    }

    /// Reads an id; `None` for anything but a string or a number.
    pub fn from_raw(raw: &RawValue) -> Option<Self> {
        match raw.get().as_bytes().first()? {
            b'"' | b'-' | b'0'..=b'9' => Some(Id(Payload::from_raw(raw))),
            _ => None,
        }
    }

    /// The JSON text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// The id as a whole number, if it is one of ours.
    pub fn as_number(&self) -> Option<u64> {
        self.as_str().parse().ok()
    }
}

impl PartialEq for Id {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Id {}

impl std::hash::Hash for Id {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Id::from_raw(&raw).ok_or_else(|| serde::de::Error::custom("an id is a string or a number"))
    }
}

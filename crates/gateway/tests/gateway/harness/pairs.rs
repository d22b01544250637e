//! JSON objects as they are spelled: members in their order, names and values as raw text.

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// The members of an object.
struct Pairs<'a>(Vec<(&'a str, &'a str)>);

impl<'de> Deserialize<'de> for Pairs<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Pairs<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
                let mut pairs = Vec::new();
                while let Some(name) = map.next_key::<&'de RawValue>()? {
                    pairs.push((name.get(), map.next_value::<&'de RawValue>()?.get()));
                }
                Ok(Pairs(pairs))
            }
        }
        deserializer.deserialize_map(Members)
    }
}

fn pairs(object: &str) -> Vec<(&str, &str)> {
    let Pairs(pairs) = serde_json::from_str(object).unwrap_or_else(|error| panic!("{error}: {object}"));
    pairs
}

/// The raw value of the member with this plain name.
pub fn member(object: &str, name: &str) -> Option<String> {
    let name = format!("\"{name}\"");
    pairs(object).into_iter().find(|(spelled, _)| *spelled == name).map(|(_, value)| value.to_owned())
}

/// What differs between two objects, apart from members called like `own` and, within `_meta`, like `own_meta`.
pub fn differences(sent: &str, got: &str, own: &[&str], own_meta: &[&str]) -> Vec<String> {
    let is = |spelled: &str, names: &[&str]| names.iter().any(|name| spelled == format!("\"{name}\""));
    let strip = |object: &str, own: &[&str]| -> Vec<(String, String)> {
        let kept = pairs(object).into_iter().filter(|(name, _)| !is(name, own) && *name != "\"_meta\"");
        kept.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    };
    let (a, b) = (strip(sent, own), strip(got, own));
    let meta = |object: &str| member(object, "_meta").map_or_else(Vec::new, |meta| strip(&meta, own_meta));
    let (c, d) = (meta(sent), meta(got));
    let mut found = Vec::new();
    for (what, a, b) in [("", a, b), ("_meta ", c, d)] {
        if a.len() != b.len() {
            found.push(format!("{what}{} members became {}", a.len(), b.len()));
        }
        for ((name, value), (other_name, other)) in a.iter().zip(&b) {
            if (name, value) != (other_name, other) {
                found.push(format!("{what}{name}:{value} became {other_name}:{other}"));
            }
        }
    }
    found
}

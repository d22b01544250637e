//! JSON objects whose members stay raw text.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::ser::{Error as _, SerializeMap};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use taskgate_task::{InvalidPayload, Payload};

/// Reads an object into a type of ours. By themselves such types would take an array for their members in order.
pub(crate) fn read_object<'a, T: Deserialize<'a>>(raw: &'a RawValue) -> Result<T, serde_json::Error> {
    if raw.get().starts_with('{') {
        serde_json::from_str(raw.get())
    } else {
        Err(serde::de::Error::custom("expected an object"))
    }
}

/// The same for a member that may be absent or null.
pub(crate) fn object_member<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    struct Member<T>(PhantomData<T>);
    impl<'de, T: Deserialize<'de>> Visitor<'de> for Member<T> {
        type Value = Option<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_unit<E>(self) -> Result<Option<T>, E> {
            Ok(None)
        }

        fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<Option<T>, M::Error> {
            T::deserialize(MapAccessDeserializer::new(map)).map(Some)
        }
    }
    deserializer.deserialize_any(Member(PhantomData))
}

/// A JSON object whose members are kept as raw text and in order, so that one of them can be added, changed or
/// removed while the others stay byte for byte what they were.
#[derive(Debug, Clone, Default)]
pub struct RawObject<'a>(Vec<(Name<'a>, Cow<'a, RawValue>)>);

/// A member's name.
#[derive(Debug, Clone)]
struct Name<'a> {
    text: Cow<'a, str>,
    /// How it was spelled, if it has escapes: the same name can be written in many ways.
    spelled: Option<&'a RawValue>,
}

impl<'a> Name<'a> {
    fn plain(text: impl Into<Cow<'a, str>>) -> Self {
        Name { text: text.into(), spelled: None }
    }

    /// A name whose escapes stand for no text, such as half of a surrogate pair, goes by its spelling: none that is known
    /// here has quotes.
    fn read(spelled: &'a RawValue) -> Self {
        let quoted = spelled.get();
        match quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
            Some(bare) if !bare.contains('\\') => Name::plain(bare),
            _ => {
                let text = serde_json::from_str::<String>(quoted).map_or(Cow::Borrowed(quoted), Cow::Owned);
                Name { text, spelled: Some(spelled) }
            }
        }
    }
}

impl<'a> RawObject<'a> {
    /// Reads an object.
    pub fn parse(text: &'a str) -> Result<Self, InvalidPayload> {
        Ok(serde_json::from_str(text)?)
    }

    /// The member with this name; the last one, should there be several.
    pub fn get(&self, name: &str) -> Option<&RawValue> {
        self.0.iter().rev().find(|(key, _)| key.text == name).map(|(_, value)| &**value)
    }

    /// Sets a member: in its place if it exists, at the end otherwise. Afterwards there is exactly one of this name, so
    /// that no reader can find an older one.
    pub fn set(&mut self, name: &'a str, value: Box<RawValue>) {
        self.put(name, Cow::Owned(value));
    }

    /// The same with a value that lives elsewhere.
    pub fn set_ref(&mut self, name: &'a str, value: &'a RawValue) {
        self.put(name, Cow::Borrowed(value));
    }

    fn put(&mut self, name: &'a str, value: Cow<'a, RawValue>) {
        let Some(place) = self.0.iter().position(|(key, _)| key.text == name) else {
            self.0.push((Name::plain(name), value));
            return;
        };
        self.0[place].1 = value;
        let mut index = 0;
        self.0.retain(|(key, _)| {
            index += 1;
            index - 1 == place || key.text != name
        });
    }

    /// Adds a member at the end, under a name of its own.
    pub fn push(&mut self, name: String, value: Box<RawValue>) {
        self.0.push((Name::plain(name), Cow::Owned(value)));
    }

    /// Removes a member.
    pub fn remove(&mut self, name: &str) {
        self.0.retain(|(key, _)| key.text != name);
    }

    /// The members.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &RawValue)> {
        self.0.iter().map(|(key, value)| (&*key.text, &**value))
    }

    /// How many members.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The object as text in which every name is spelled as it came.
    fn spelled(&self) -> Result<String, serde_json::Error> {
        let mut text = String::new();
        for (name, value) in &self.0 {
            text.push(if text.is_empty() { '{' } else { ',' });
            match name.spelled {
                Some(spelled) => text.push_str(spelled.get()),
                None => text.push_str(&serde_json::to_string(&name.text)?),
            }
            text.push(':');
            text.push_str(value.get());
        }
        text.push('}');
        Ok(text)
    }

    /// The object as text.
    pub fn to_raw(&self) -> Result<Box<RawValue>, InvalidPayload> {
        Ok(serde_json::value::to_raw_value(self)?)
    }

    /// The object as a payload, in which `inner` is the one member of this name: in the place of the first one, or at the end. The
    /// text is written once, where setting the member first would write `inner` twice.
    pub fn to_payload_with(&self, name: &str, inner: &RawObject<'_>) -> Result<Payload, InvalidPayload> {
        if self.is_spelled() || inner.is_spelled() {
            let mut all = RawObject(self.0.clone());
            all.put(name, Cow::Owned(inner.to_raw()?));
            return all.to_payload();
        }
        Payload::from_value(&With { outer: self, name, inner })
    }

    /// Whether the spelling of a name must be kept.
    fn is_spelled(&self) -> bool {
        self.0.iter().any(|(name, _)| name.spelled.is_some())
    }

    /// The object as a payload.
    pub fn to_payload(&self) -> Result<Payload, InvalidPayload> {
        Ok(self.to_raw()?.into())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for RawObject<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members<'a>(PhantomData<&'a ()>);
        impl<'de: 'a, 'a> Visitor<'de> for Members<'a> {
            type Value = RawObject<'a>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
                let mut members = Vec::with_capacity(8);
                while let Some(name) = map.next_key::<&'de RawValue>()? {
                    members.push((Name::read(name), Cow::Borrowed(map.next_value::<&'de RawValue>()?)));
                }
                Ok(RawObject(members))
            }
        }
        deserializer.deserialize_map(Members(PhantomData))
    }
}

impl Serialize for RawObject<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.is_spelled() {
            // A map would spell its keys anew.
            let text = self.spelled().and_then(RawValue::from_string);
            return text.map_err(S::Error::custom)?.serialize(serializer);
        }
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(&name.text, value)?;
        }
        map.end()
    }
}

/// An object with another one in it.
struct With<'a> {
    outer: &'a RawObject<'a>,
    name: &'a str,
    inner: &'a RawObject<'a>,
}

impl Serialize for With<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let mut is_written = false;
        for (name, value) in &self.outer.0 {
            if name.text != self.name {
                map.serialize_entry(&name.text, value)?;
            } else if !std::mem::replace(&mut is_written, true) {
                map.serialize_entry(self.name, self.inner)?;
            }
        }
        if !is_written {
            map.serialize_entry(self.name, self.inner)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_object_in_another_is_written_as_if_it_were_set() {
        let inner = [r#"{}"#, r#"{"x":1.0,"y":"\u00e9"}"#, r#"{"\u0078":1,"\ud800":2}"#];
        let outer =
            [r#"{}"#, r#"{"a":1,"m":2,"b":[ 3 ]}"#, r#"{"m":1,"a":2,"m":3}"#, r#"{"\u006d":1,"a\"":2}"#];
        for (outer, inner) in outer.iter().flat_map(|outer| inner.iter().map(move |inner| (outer, inner))) {
            let inner = RawObject::parse(inner).expect("object");
            let mut set = RawObject::parse(outer).expect("object");
            let with = set.to_payload_with("m", &inner).expect("payload");
            set.set("m", inner.to_raw().expect("raw"));
            assert_eq!(with, set.to_payload().expect("payload"));
        }
    }

    #[test]
    fn what_is_not_touched_stays_byte_for_byte() {
        let text = r#"{"a":1.0,"b":{"x":[1e3, -0]},"c":"\u00e9"}"#;
        let mut odd = RawObject::parse(r#"{"\u0061":1,"\/\ud800":[ ],"\u00e9\"":2,"":3}"#).expect("object");
        assert_eq!(odd.get("a").map(RawValue::get), Some("1"));
        odd.set("a", RawValue::TRUE.to_owned());
        odd.set("z\"", RawValue::NULL.to_owned());
        odd.remove("");
        assert_eq!(
            odd.to_raw().expect("raw").get(),
            r#"{"\u0061":true,"\/\ud800":[ ],"\u00e9\"":2,"z\"":null}"#
        );
        let mut object = RawObject::parse(text).expect("object");
        object.set("b", RawValue::TRUE.to_owned());
        object.set("d", RawValue::NULL.to_owned());
        assert_eq!(object.to_raw().expect("raw").get(), r#"{"a":1.0,"b":true,"c":"\u00e9","d":null}"#);
        object.remove("b");
        object.remove("d");
        let mut twice = RawObject::parse(r#"{"a":1,"b":2,"a":3}"#).expect("object");
        twice.set("a", RawValue::NULL.to_owned());
        assert_eq!(twice.to_raw().expect("raw").get(), r#"{"a":null,"b":2}"#);
        assert_eq!(object.to_raw().expect("raw").get(), r#"{"a":1.0,"c":"\u00e9"}"#);
    }
}

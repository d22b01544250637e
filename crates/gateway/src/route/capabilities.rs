//! What several upstreams can do, as what one server can.

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use taskgate_client::session::LaneDescription;
use taskgate_task::{InvalidPayload, Payload};
use taskgate_wire::RawObject;
use taskgate_wire::meta::TASKS_EXTENSION;

/// The capabilities of all, in the order of the upstreams. An upstream's own tasks are not passed on, whichever generation
/// they are of: tasks are ours.
pub fn merged(all: &[LaneDescription]) -> Result<RawObject<'static>, InvalidPayload> {
    let mut merged = RawObject::default();
    for said in all {
        let Ok(said) = RawObject::parse(said.capabilities.as_str()) else { continue };
        for (name, value) in said.iter().filter(|(name, _)| *name != "tasks") {
            let value = match (name, merged.get(name)) {
                ("extensions", before) => match extensions(before, value)? {
                    Some(extensions) => extensions,
                    None => continue,
                },
                (_, Some(before)) => both(before, value)?,
                (_, None) => value.to_owned(),
            };
            put(&mut merged, name, value);
        }
    }
    Ok(merged)
}

/// What either of two servers says of a feature: its members together, and of a switch that both have, `true` if one says so.
fn both(one: &RawValue, other: &RawValue) -> Result<Box<RawValue>, InvalidPayload> {
    let (Ok(before), Ok(also)) = (RawObject::parse(one.get()), RawObject::parse(other.get())) else {
        // No objects: whoever said it first is right.
        return Ok(one.to_owned());
    };
    let mut members = before.clone();
    for (name, value) in also.iter() {
        let known = members.get(name).map(RawValue::get);
        if known.is_none() || (known == Some("false") && value.get() == "true") {
            put(&mut members, name, value.to_owned());
        }
    }
    members.to_raw()
}

/// The extensions of both, without the one that is ours; `None` if there are none.
fn extensions(before: Option<&RawValue>, also: &RawValue) -> Result<Option<Box<RawValue>>, InvalidPayload> {
    let Ok(mut also) = RawObject::parse(also.get()) else { return Ok(before.map(ToOwned::to_owned)) };
    also.remove(TASKS_EXTENSION);
    match before {
        Some(before) => both(before, &also.to_raw()?).map(Some),
        None if also.is_empty() => Ok(None),
        None => also.to_raw().map(Some),
    }
}

fn put(object: &mut RawObject<'_>, name: &str, value: Box<RawValue>) {
    object.remove(name);
    object.push(name.to_owned(), value);
}

/// What we say besides where the configuration may change while we serve: each of the lists that there are may change.
pub fn changing(all: &[LaneDescription]) -> Option<LaneDescription> {
    let has = |feature: &str| {
        let said = |said: &LaneDescription| {
            RawObject::parse(said.capabilities.as_str()).is_ok_and(|said| said.get(feature).is_some())
        };
        feature == "tools" || all.iter().any(said)
    };
    let features = ["tools", "prompts", "resources"].into_iter().filter(|feature| has(feature));
    let changing: serde_json::Map<String, Value> =
        features.map(|feature| (feature.to_owned(), json!({ "listChanged": true }))).collect();
    let capabilities = Payload::from_value(&changing).ok()?;
    Some(LaneDescription { capabilities, server_info: None, instructions: None, answer: None })
}

/// What the servers tell models: the only text as it is, several under the names of their servers.
pub fn instructions(all: &[(String, LaneDescription)]) -> Option<Box<RawValue>> {
    let said = |(name, said): &(String, LaneDescription)| {
        let raw = said.instructions.as_ref()?;
        let text: String = serde_json::from_str(raw.as_str()).ok()?;
        (!text.is_empty()).then(|| (name.clone(), raw.as_raw().to_owned(), text))
    };
    let texts: Vec<_> = all.iter().filter_map(said).collect();
    match &*texts {
        [] => None,
        [(_, raw, _)] => Some(raw.clone()),
        several => {
            let parts: Vec<String> =
                several.iter().map(|(name, _, text)| format!("{name}:\n{text}")).collect();
            to_raw_value(&parts.join("\n\n")).ok()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(capabilities: &str) -> LaneDescription {
        let capabilities = Payload::parse(capabilities.to_owned()).expect("JSON");
        LaneDescription { capabilities, server_info: None, instructions: None, answer: None }
    }

    #[test]
    fn what_one_can_all_can() {
        let all = [
            said(
                r#"{"resources":{"subscribe":false},"tasks":{},"extensions":{"io.modelcontextprotocol/tasks":{},"a/b":{"n":1.0}}}"#,
            ),
            said(
                r#"{"resources":{"subscribe":true,"listChanged":true,"x":1},"logging":{},"extensions":{"c/d":{}}}"#,
            ),
            said(r#"{"resources":{"listChanged":false},"experimental":{"e":{}},"logging":7}"#),
            said("[]"),
        ];
        let merged = merged(&all).expect("JSON").to_raw().expect("JSON");
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(merged.get()).expect("JSON"),
            serde_json::json!({
                "resources": {"subscribe": true, "listChanged": true, "x": 1},
                "logging": {},
                "experimental": {"e": {}},
                "extensions": {"a/b": {"n": 1.0}, "c/d": {}},
            })
        );
        let ours =
            super::merged(&[said(r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#)]).expect("JSON");
        assert!(ours.is_empty());
    }
}

use serde_json::value::RawValue;
use taskgate_task::{InvalidPayload, Payload};
use taskgate_wire::{RawObject, Version, meta};

const META: &str = "_meta";

/// What a lane puts on a request.
pub(super) enum Stamp<'a> {
    /// Version, identity and capabilities.
    Modern { version: Version, info: &'a RawValue, capabilities: &'a RawValue },
    /// Nothing, and what belongs on the other lane comes off.
    Legacy,
}

/// The params with our progress token and the lane's metadata in `_meta`. Everything else stays byte for byte.
pub(super) fn stamp(
    params: Option<&RawValue>,
    token: u64,
    stamp: &Stamp<'_>,
) -> Result<Payload, InvalidPayload> {
    let object = match params {
        Some(params) => RawObject::parse(params.get())?,
        None => RawObject::default(),
    };
    let old = object.get(META).map(RawValue::get).filter(|text| text.starts_with('{'));
    let mut meta = match old {
        Some(text) => RawObject::parse(text)?,
        None => RawObject::default(),
    };
    let (said, token) = (version_of(stamp), token.to_string());
    match stamp {
        Stamp::Modern { info, capabilities, .. } => {
            meta.set_ref(meta::PROTOCOL_VERSION, serde_json::from_str(&said)?);
            meta.set_ref(meta::CLIENT_INFO, info);
            meta.set_ref(meta::CLIENT_CAPABILITIES, capabilities);
        }
        Stamp::Legacy => {
            for key in [meta::PROTOCOL_VERSION, meta::CLIENT_INFO, meta::CLIENT_CAPABILITIES, meta::LOG_LEVEL]
            {
                meta.remove(key);
            }
        }
    }
    meta.set_ref(meta::PROGRESS_TOKEN, serde_json::from_str(&token)?);
    // Should the caller have written it more than once, only ours remains: which of them counts is up to the reader, and a
    // token or an identity must not depend on it.
    object.to_payload_with(META, &meta)
}

/// The version as JSON, where one is said at all.
fn version_of(stamp: &Stamp<'_>) -> String {
    match stamp {
        Stamp::Modern { version, .. } => format!("\"{}\"", version.as_str()),
        Stamp::Legacy => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).expect("JSON")
    }

    /// Case 14, and what is not ours stays as it was spelled.
    #[test]
    fn only_our_metadata_changes() {
        let params = raw(
            r#"{"name":"t","_meta":{"progressToken":"theirs","x/y":1.0,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{},"io.modelcontextprotocol/logLevel":"debug"},"arguments":{"n":1.50,"big":12345678901234567890}}"#,
        );
        let legacy = stamp(Some(&params), 7, &Stamp::Legacy).expect("object");
        assert_eq!(
            legacy.as_str(),
            r#"{"name":"t","_meta":{"progressToken":7,"x/y":1.0},"arguments":{"n":1.50,"big":12345678901234567890}}"#
        );
        let (info, capabilities) = (raw(r#"{"name":"c","version":"1"}"#), raw(r#"{"roots":{}}"#));
        let version = Version::V2026_07_28;
        let modern = Stamp::Modern { version, info: &info, capabilities: &capabilities };
        assert_eq!(
            stamp(None, 8, &modern).expect("object").as_str(),
            r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"roots":{}},"progressToken":8}}"#
        );
        let text = stamp(Some(&params), 9, &modern).expect("object");
        assert!(text.as_str().contains(r#""io.modelcontextprotocol/logLevel":"debug""#));
        assert!(text.as_str().contains(r#"clientInfo":{"name":"c","version":"1"}"#));
        assert!(stamp(Some(&raw("[1]")), 1, &Stamp::Legacy).is_err());
    }

    #[test]
    fn what_is_written_twice_is_not_smuggled_past() {
        let params =
            raw(r#"{"_meta":{"progressToken":1},"a":1,"_meta":{"progressToken":2,"progressToken":3}}"#);
        let text = stamp(Some(&params), 9, &Stamp::Legacy).expect("object");
        assert_eq!(text.as_str(), r#"{"_meta":{"progressToken":9},"a":1}"#);
    }
}

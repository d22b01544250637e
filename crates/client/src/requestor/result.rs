use serde_json::Value;
use serde_json::value::RawValue;
use taskgate_task::Payload;
use taskgate_wire::RawObject;

/// What a tool gave back.
#[derive(Debug, Clone, PartialEq)]
pub struct CallResult {
    /// The whole result, byte for byte.
    pub raw: Payload,
    /// Whether the tool says that it failed. What it says about it is the content, as with any result.
    pub is_error: bool,
    /// `structuredContent`, if there is any.
    pub structured: Option<Value>,
}

impl CallResult {
    /// Reads what decides something here; the rest stays text.
    pub(super) fn read(raw: Payload) -> CallResult {
        let (is_error, structured) = match RawObject::parse(raw.as_str()) {
            Ok(object) => (
                object.get("isError").is_some_and(|said| said.get() == "true"),
                object.get("structuredContent").and_then(|raw| serde_json::from_str(raw.get()).ok()),
            ),
            Err(_) => (false, None),
        };
        CallResult { raw, is_error, structured }
    }

    /// The texts of its content, one a line.
    pub fn text(&self) -> String {
        let read = || {
            let object = RawObject::parse(self.raw.as_str()).ok()?;
            let blocks: Vec<&RawValue> = serde_json::from_str(object.get("content")?.get()).ok()?;
            let text = |block: &&RawValue| {
                let block = RawObject::parse(block.get()).ok()?;
                block.get("type").filter(|kind| kind.get() == "\"text\"")?;
                serde_json::from_str::<String>(block.get("text")?.get()).ok()
            };
            Some(blocks.iter().filter_map(text).collect::<Vec<_>>().join("\n"))
        };
        read().unwrap_or_default()
    }
}

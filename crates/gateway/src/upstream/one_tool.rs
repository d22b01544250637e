//! The few words of MCP that let what is no server be listed like the tools of any. Its calls go another way.

use serde_json::{Value, json};
use taskgate_client::transport::memory::{self, FarEnd};
use taskgate_client::transport::{Inbound, Link};
use taskgate_task::Payload;
use taskgate_wire::{Message, RpcError, method};

use super::ToolSchema;

/// Messages that may wait in either direction.
const QUEUE: usize = 16;
/// How long a list may be kept, in milliseconds. It never changes while this process lives.
const LIST_TTL_MS: u64 = 60_000;

/// A server that has this tool. It ends when the link is dropped.
pub fn serve(
    tool: &str,
    description: Option<&str>,
    input_schema: &ToolSchema,
    output_schema: Option<&ToolSchema>,
) -> Link {
    let (link, FarEnd { mut inbox, out }) = memory::pair(QUEUE);
    let definition = definition(tool, description, input_schema, output_schema);
    tokio::spawn(async move {
        while let Some(message) = inbox.recv().await {
            let Message::Request { id, method, .. } = message else { continue };
            let answer = answer(&method, &definition);
            let answer = answer.and_then(|value| {
                Payload::from_value(&value).map_err(|error| RpcError::internal(error.to_string()))
            });
            let message = match answer {
                Ok(result) => Message::Response { id, result },
                Err(error) => Message::error(Some(id), &error),
            };
            if out.send(Inbound::from(message)).await.is_err() {
                return;
            }
        }
    });
    link
}

fn definition(
    tool: &str,
    description: Option<&str>,
    input_schema: &ToolSchema,
    output_schema: Option<&ToolSchema>,
) -> Value {
    let value = |schema: &ToolSchema| serde_json::from_str(schema.as_payload().as_str()).unwrap_or_default();
    let schema: Value = value(input_schema);
    let mut definition = json!({ "name": tool, "inputSchema": schema });
    if let Some(schema) = output_schema {
        definition["outputSchema"] = value(schema);
    }
    if let Some(description) = description {
        definition["description"] = description.into();
    }
    definition
}

fn answer(method: &str, definition: &Value) -> Result<Value, RpcError> {
    let mut answer = json!({ "resultType": "complete", "ttlMs": LIST_TTL_MS, "cacheScope": "public" });
    match method {
        method::DISCOVER => {
            answer["supportedVersions"] = json!([taskgate_wire::Version::V2026_07_28.as_str()]);
            answer["capabilities"] = json!({ "tools": {} });
        }
        "tools/list" => answer["tools"] = json!([definition]),
        // What else a server can be asked, this one does not have.
        _ => return Err(RpcError::method_not_found(method)),
    }
    Ok(answer)
}

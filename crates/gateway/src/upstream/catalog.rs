use std::collections::HashMap;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use taskgate_client::session::{CallFailure, CallOptions, Lane, Session};
use taskgate_task::Payload;
use taskgate_wire::tool::ToolFacts;
use taskgate_wire::{RpcError, method};

/// The tools of an upstream as they were last listed.
#[derive(Debug, Default)]
pub struct Catalog {
    tools: Vec<KnownTool>,
    by_name: HashMap<String, usize>,
}

/// A tool.
#[derive(Debug)]
pub struct KnownTool {
    /// What its definition decides here.
    pub facts: ToolFacts,
    /// The definition, untouched.
    pub definition: Payload,
}

/// A page of a tool list.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page<'a> {
    #[serde(borrow)]
    tools: Vec<&'a RawValue>,
    #[serde(default)]
    next_cursor: Option<String>,
}

/// No upstream has more pages than this; one that always names a next page is not followed for ever.
const MOST_PAGES: usize = 1000;

impl Catalog {
    /// Lists all pages, but waits no longer than `patience`.
    pub async fn fetch(session: &Session, lane: Lane, patience: Duration) -> Result<Catalog, RpcError> {
        match tokio::time::timeout(patience, Catalog::pages(session, lane)).await {
            Ok(listed) => listed,
            Err(_) => Err(RpcError::internal(format!("tools/list was not answered within {patience:?}"))),
        }
    }

    async fn pages(session: &Session, lane: Lane) -> Result<Catalog, RpcError> {
        let mut catalog = Catalog::default();
        let mut cursor: Option<String> = None;
        for _ in 0..MOST_PAGES {
            let params = match &cursor {
                None => Payload::from_value(&serde_json::json!({})),
                Some(cursor) => Payload::from_value(&serde_json::json!({ "cursor": cursor })),
            };
            let params = params.map_err(|error| RpcError::internal(error.to_string()))?;
            let answer = session
                .call(lane, method::TOOLS_LIST, Some(params.as_raw()), CallOptions::default())
                .outcome()
                .await;
            let answer = match answer {
                Ok(answer) => answer,
                // A server without tools is a server all the same.
                Err(CallFailure::Rpc(error)) if catalog.tools.is_empty() && is_method_not_found(&error) => {
                    break;
                }
                Err(failure) => return Err(RpcError::internal(failure.to_string())),
            };
            let page: Page = serde_json::from_str(answer.as_str())
                .map_err(|error| RpcError::internal(format!("tools/list of the server: {error}")))?;
            for definition in page.tools {
                catalog.add(definition);
            }
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        Ok(catalog)
    }

    fn add(&mut self, definition: &RawValue) {
        match ToolFacts::read(definition) {
            Ok(facts) => {
                self.by_name.insert(facts.name.clone(), self.tools.len());
                self.tools.push(KnownTool { facts, definition: Payload::from_raw(definition) });
            }
            Err(error) => tracing::warn!(%error, "an upstream lists something that is no tool"),
        }
    }

    /// The tools, in the upstream's order.
    pub fn tools(&self) -> &[KnownTool] {
        &self.tools
    }

    /// The tool with this name.
    pub fn find(&self, name: &str) -> Option<&KnownTool> {
        self.by_name.get(name).map(|index| &self.tools[*index])
    }
}

fn is_method_not_found(error: &Payload) -> bool {
    #[derive(Deserialize)]
    struct Code {
        code: i64,
    }
    serde_json::from_str::<Code>(error.as_str()).is_ok_and(|error| error.code == -32601)
}

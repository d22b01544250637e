//! The spellings of 2025-10-20.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskShape<'a> {
    pub task_id: &'a str,
    pub status: &'static str,
    pub keep_alive: u64,
    pub poll_frequency: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<&'a str>,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaShape<'a>>,
}

#[derive(Serialize)]
pub struct MetaShape<'a> {
    #[serde(rename = "modelcontextprotocol.io/related-task")]
    pub related: RelatedShape<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RelatedShape<'a> {
    pub task_id: &'a str,
}

/// Nothing but the task that it is about.
#[derive(Serialize)]
pub struct AboutShape<'a> {
    #[serde(rename = "_meta")]
    pub meta: MetaShape<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PageShape<'a> {
    pub tasks: Vec<TaskShape<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// What a requestor asks for.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AskedShape<'a> {
    #[serde(borrow, default)]
    pub task_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub keep_alive: Option<&'a RawValue>,
}

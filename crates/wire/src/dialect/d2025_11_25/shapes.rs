//! The spellings of 2025-11-25.

use serde::Serialize;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskShape<'a> {
    pub task_id: String,
    pub status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status_message: Option<&'a str>,
    pub created_at: String,
    pub last_updated_at: String,
    pub ttl: u64,
    pub poll_interval: u64,
}

#[derive(Serialize)]
pub struct CreatedShape<'a> {
    pub task: TaskShape<'a>,
    #[serde(rename = "_meta")]
    pub meta: MetaShape<'a>,
}

#[derive(Serialize)]
pub struct MetaShape<'a> {
    #[serde(rename = "io.modelcontextprotocol/related-task")]
    pub related: RelatedShape,
    #[serde(
        rename = "io.modelcontextprotocol/model-immediate-response",
        skip_serializing_if = "Option::is_none"
    )]
    pub immediate: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RelatedShape {
    pub task_id: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PageShape<'a> {
    pub tasks: Vec<TaskShape<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

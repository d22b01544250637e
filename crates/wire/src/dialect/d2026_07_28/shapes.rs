//! The spellings of the extension.

use serde::Serialize;
use serde::ser::SerializeMap;
use taskgate_task::{Inputs, Payload};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskShape<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_type: Option<&'static str>,
    pub task_id: String,
    pub status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status_message: Option<&'a str>,
    pub created_at: String,
    pub last_updated_at: String,
    pub ttl_ms: u64,
    pub poll_interval_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_requests: Option<InputRequests<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Payload>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Payload>,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<SubscriptionMeta<'a>>,
}

#[derive(Serialize)]
pub struct SubscriptionMeta<'a> {
    #[serde(rename = "io.modelcontextprotocol/subscriptionId")]
    pub subscription: &'a crate::jsonrpc::Id,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Filter<'a> {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub tools_list_changed: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub prompts_list_changed: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub resources_list_changed: bool,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    pub resource_subscriptions: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_ids: Option<&'a [String]>,
    #[serde(flatten)]
    pub others: crate::raw::RawObject<'a>,
}

#[derive(Serialize)]
pub struct AcknowledgedShape<'a> {
    #[serde(rename = "_meta")]
    pub meta: SubscriptionMeta<'a>,
    pub notifications: Filter<'a>,
}

/// The open questions as a map of requests.
pub struct InputRequests<'a>(pub &'a Inputs);

impl Serialize for InputRequests<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Request<'a> {
            method: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            params: Option<&'a Payload>,
        }
        let mut map = serializer.serialize_map(None)?;
        for asked in self.0.open() {
            map.serialize_entry(
                &asked.key,
                &Request { method: &asked.method, params: asked.params.as_ref() },
            )?;
        }
        map.end()
    }
}

//! What callers are told when a limit is reached.

use std::time::Duration;

use serde::Deserialize;
use taskgate_task::Payload;
use taskgate_wire::{ErrorCode, RpcError};

/// A limit that a request can run into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// `open_tasks`
    OpenTasks,
    /// `owner_open_tasks`
    OwnerOpenTasks,
    /// `stored_tasks`
    StoredTasks,
    /// `owner_stored_tasks`
    OwnerStoredTasks,
    /// `stored_size`
    StoredSize,
    /// `owner_stored_size`
    OwnerStoredSize,
    /// `owner_creates`
    OwnerCreates,
    /// `owner_polls`
    OwnerPolls,
    /// `queue`
    Queue,
    /// `owner_queue`
    OwnerQueue,
    /// `streams`
    Streams,
    /// `owner_streams`
    OwnerStreams,
    /// `parked_calls`
    ParkedCalls,
    /// `owner_parked_calls`
    OwnerParkedCalls,
    /// `max_sessions`
    MaxSessions,
    /// `session_requests`
    SessionRequests,
}

impl Limit {
    /// All, in the order of their numbers.
    pub const ALL: [Limit; 16] = [
        Limit::OpenTasks,
        Limit::OwnerOpenTasks,
        Limit::StoredTasks,
        Limit::OwnerStoredTasks,
        Limit::StoredSize,
        Limit::OwnerStoredSize,
        Limit::OwnerCreates,
        Limit::OwnerPolls,
        Limit::Queue,
        Limit::OwnerQueue,
        Limit::Streams,
        Limit::OwnerStreams,
        Limit::ParkedCalls,
        Limit::OwnerParkedCalls,
        Limit::MaxSessions,
        Limit::SessionRequests,
    ];

    /// Its key in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Limit::OpenTasks => "open_tasks",
            Limit::OwnerOpenTasks => "owner_open_tasks",
            Limit::StoredTasks => "stored_tasks",
            Limit::OwnerStoredTasks => "owner_stored_tasks",
            Limit::StoredSize => "stored_size",
            Limit::OwnerStoredSize => "owner_stored_size",
            Limit::OwnerCreates => "owner_creates",
            Limit::OwnerPolls => "owner_polls",
            Limit::Queue => "queue",
            Limit::OwnerQueue => "owner_queue",
            Limit::Streams => "streams",
            Limit::OwnerStreams => "owner_streams",
            Limit::ParkedCalls => "parked_calls",
            Limit::OwnerParkedCalls => "owner_parked_calls",
            Limit::MaxSessions => "max_sessions",
            Limit::SessionRequests => "session_requests",
        }
    }

    /// Whether it is the caller who asks too much, and not all callers together.
    pub const fn is_of_caller(self) -> bool {
        matches!(
            self,
            Limit::OwnerOpenTasks
                | Limit::OwnerStoredTasks
                | Limit::OwnerStoredSize
                | Limit::OwnerCreates
                | Limit::OwnerPolls
                | Limit::OwnerQueue
                | Limit::OwnerStreams
                | Limit::OwnerParkedCalls
                | Limit::SessionRequests
        )
    }

    /// When it makes sense to try again, where nothing tells it more exactly.
    pub const fn retry_after(self) -> Duration {
        match self {
            Limit::OpenTasks | Limit::OwnerOpenTasks | Limit::Queue | Limit::OwnerQueue => {
                Duration::from_secs(5)
            }
            // These fall when the retention of something is over.
            Limit::StoredTasks
            | Limit::OwnerStoredTasks
            | Limit::StoredSize
            | Limit::OwnerStoredSize
            | Limit::MaxSessions => Duration::from_secs(30),
            Limit::Streams | Limit::OwnerStreams | Limit::ParkedCalls | Limit::OwnerParkedCalls => {
                Duration::from_secs(5)
            }
            Limit::OwnerCreates | Limit::OwnerPolls | Limit::SessionRequests => Duration::from_secs(1),
        }
    }
}

/// What is said of a message that is longer than `most` bytes, the limit `max_message`, and so was not read. It has the shape of other
/// refusals, but no time after which it could be sent again.
pub fn message_too_long(most: usize) -> RpcError {
    let message = format!(
        "The message is longer than max_message ({most} bytes) and was not read; sending it again does not help"
    );
    let data = serde_json::json!({ "limit": "max_message", "value": most, "retryAfterMs": null });
    RpcError::new(ErrorCode::InvalidRequest, message).with_data(&data)
}

/// A request that a limit refuses. Nothing of it was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// Which limit.
    pub limit: Limit,
    /// What it is set to.
    pub value: usize,
    /// When it makes sense to try again.
    pub retry_after: Duration,
}

impl Refusal {
    /// With the usual time to wait.
    pub const fn new(limit: Limit, value: usize) -> Self {
        Refusal { limit, value, retry_after: limit.retry_after() }
    }

    /// The error that says so.
    pub fn to_error(self) -> RpcError {
        let (name, value) = (self.limit.name(), self.value);
        let millis = u64::try_from(self.retry_after.as_millis()).unwrap_or(u64::MAX).max(1);
        let message = format!(
            "The limit {name} ({value}) is reached; nothing was done. Try again in {} s",
            millis.div_ceil(1000)
        );
        RpcError::internal(message)
            .with_data(&serde_json::json!({ "limit": name, "value": value, "retryAfterMs": millis }))
    }

    /// The refusal that an error object says, if it is one of ours: which limit, and after how many seconds to try again.
    pub fn read(error: &Payload) -> Option<(Limit, u16)> {
        #[derive(Deserialize)]
        struct Shape<'a> {
            code: i64,
            #[serde(borrow, default)]
            data: Option<Data<'a>>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Data<'a> {
            limit: &'a str,
            retry_after_ms: u64,
        }
        let shape: Shape<'_> = serde_json::from_str(error.as_str()).ok()?;
        let data = shape.data.filter(|_| shape.code == -32603)?;
        let limit = Limit::ALL.into_iter().find(|limit| limit.name() == data.limit)?;
        let seconds = data.retry_after_ms.div_ceil(1000).min(u64::from(u16::MAX));
        Some((limit, u16::try_from(seconds).unwrap_or(u16::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_which_limit_its_value_and_when_to_try_again() {
        for limit in Limit::ALL {
            let error = Refusal::new(limit, 7).to_error();
            let data: serde_json::Value =
                serde_json::from_str(error.data.as_ref().expect("data").as_str()).expect("JSON");
            assert_eq!((&data["limit"], &data["value"]), (&limit.name().into(), &7.into()));
            let seconds = limit.retry_after().as_secs();
            assert_eq!(data["retryAfterMs"], seconds * 1000);
            assert!(error.message.contains(limit.name()) && error.message.contains("(7)"), "{error}");
            assert_eq!(Refusal::read(&error.to_payload()), Some((limit, seconds as u16)));
        }
    }

    /// What a server says of limits of its own is its own affair.
    #[test]
    fn an_error_of_others_is_no_refusal() {
        for text in [
            r#"{"code":-32603,"message":"m"}"#,
            r#"{"code":-32603,"message":"m","data":{"limit":"tokens","value":1,"retryAfterMs":1}}"#,
            r#"{"code":-32000,"message":"m","data":{"limit":"queue","value":1,"retryAfterMs":1}}"#,
            r#"{"code":-32603,"message":"m","data":"queue"}"#,
        ] {
            assert_eq!(Refusal::read(&Payload::parse(text.to_owned()).expect("JSON")), None, "{text}");
        }
    }
}

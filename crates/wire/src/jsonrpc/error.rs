use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use taskgate_task::Payload;

/// The error codes this receiver chooses itself. Codes of upstreams pass through as raw text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorCode {
    /// Not JSON (JSON-RPC 2.0).
    ParseError,
    /// JSON, but not a request (JSON-RPC 2.0).
    InvalidRequest,
    /// No such method, or a tool's use of tasks is not allowed (2025-11-25 tasks, tool-level negotiation).
    MethodNotFound,
    /// Wrong parameters, unknown task ids and cursors.
    InvalidParams,
    /// Something on this side failed.
    InternalError,
    /// Request metadata headers and body disagree (2026-07-28, Streamable HTTP).
    HeaderMismatch,
    /// The caller did not declare a capability that is needed (2026-07-28).
    MissingRequiredClientCapability,
    /// The version is not served (2026-07-28).
    UnsupportedProtocolVersion,
}

impl ErrorCode {
    /// The number on the wire.
    pub const fn number(self) -> i32 {
        match self {
            ErrorCode::ParseError => -32700,
            ErrorCode::InvalidRequest => -32600,
            ErrorCode::MethodNotFound => -32601,
            ErrorCode::InvalidParams => -32602,
            ErrorCode::InternalError => -32603,
            ErrorCode::HeaderMismatch => -32020,
            ErrorCode::MissingRequiredClientCapability => -32021,
            ErrorCode::UnsupportedProtocolVersion => -32022,
        }
    }
}

/// A JSON-RPC error of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RpcError {
    /// The code.
    pub code: ErrorCode,
    /// What was wrong, where, and what to do.
    pub message: String,
    /// More, for machines.
    pub data: Option<Payload>,
}

impl RpcError {
    /// An error without data.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        RpcError { code, message: message.into(), data: None }
    }

    /// Adds data. Data that cannot be written as JSON is left out.
    pub fn with_data<T: Serialize + ?Sized>(mut self, data: &T) -> Self {
        self.data = Payload::from_value(data).ok();
        self
    }

    /// -32601 for a method.
    pub fn method_not_found(method: &str) -> Self {
        RpcError::new(ErrorCode::MethodNotFound, format!("Method not found: {}", clip(method)))
    }

    /// -32602.
    pub fn invalid_params(message: impl Into<String>) -> Self {
        RpcError::new(ErrorCode::InvalidParams, message)
    }

    /// -32603.
    pub fn internal(message: impl Into<String>) -> Self {
        RpcError::new(ErrorCode::InternalError, message)
    }

    /// The one answer to an unknown, a foreign and an expired id: they must not be told apart.
    pub fn unknown_task() -> Self {
        RpcError::new(ErrorCode::InvalidParams, "Unknown task")
    }

    /// The error object.
    pub fn to_payload(&self) -> Payload {
        Payload::from_value(&ErrorShape {
            code: self.code.number(),
            message: &self.message,
            data: self.data.as_ref(),
        })
        .unwrap_or_else(|_| Payload::null())
    }
}

impl fmt::Display for RpcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code.number())
    }
}

impl std::error::Error for RpcError {}

#[derive(Serialize)]
struct ErrorShape<'a> {
    code: i32,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<&'a Payload>,
}

/// An error object of a peer as it came. Whatever stands in the place of one becomes the data of an error of ours: its reader
/// would choke on it, and what it says must not be lost.
pub fn error_object(said: Payload) -> Payload {
    #[derive(Deserialize)]
    struct Shape<'a> {
        #[serde(borrow)]
        code: &'a RawValue,
        #[serde(borrow)]
        message: &'a RawValue,
    }
    let fits = serde_json::from_str::<Shape>(said.as_str())
        .is_ok_and(|shape| shape.code.get().parse::<i64>().is_ok() && shape.message.get().starts_with('"'));
    if fits {
        return said;
    }
    RpcError::internal("The answer is an error, but no error object").with_data(&said).to_payload()
}

/// At most 120 characters of foreign text, so that an error never repeats a megabyte to its reader.
pub(crate) fn clip(text: &str) -> &str {
    match text.char_indices().nth(120) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}

//! Speaks MCP outward: transports that carry messages, and sessions that make calls over them.
//!
//! A [`Link`] is one connection, whatever carries it. A [`Session`] opens it (with or without the `initialize`
//! handshake), gives every call its own id and progress token, and takes what the server sends back to the call it
//! belongs to.

pub mod session;
pub mod transport;

pub use session::{
    CallEvent, CallFailure, CallOptions, Heard, Lane, LaneDescription, Lanes, Notifications, OpenError,
    OpenOptions, PendingCall, Question, QuestionReply, ServerDescription, Session,
};
pub use transport::http::{FailureKind, HttpServer, RequestFailure};
pub use transport::stdio::{ProcessControl, StdioCommand};
pub use transport::{CloseCause, CloseReason, Inbound, Link};

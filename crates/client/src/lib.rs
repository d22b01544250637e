//! Speaks MCP outward: transports that carry messages, and sessions that make calls over them.
//!
//! A [`Link`] is one connection, whatever carries it. A [`Session`] opens it (with or without the `initialize`
//! handshake), gives every call its own id and progress token, and takes what the server sends back to the call it
//! belongs to. A [`Client`] is what most programs want: it finds out what a server speaks, and its calls resolve to their
//! result, whether the server answers at once, makes a task of them, or is lost and found in between.

#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing {
    //! What is private, for those who check it with any input.
    pub use crate::transport::http::challenged;
}
#[cfg(feature = "ledger")]
pub mod ledger;
pub mod requestor;
pub mod session;
pub mod transport;

#[cfg(feature = "ledger")]
pub use ledger::{Ledger, LedgerError, OpenCall};
#[cfg(feature = "ledger")]
pub use requestor::Unseen;
pub use requestor::{
    Answers, CallError, CallRequest, CallResult, Client, ClientBuilder, ConnectError, Endpoint, Event,
    Handle, Hosting, Input, InputAnswer, InputKind, Logs, Pace, PendingCall, Progress, RpcFailure, TaskState,
    TaskStatus, TaskUse,
};
pub use session::{
    CallEvent, CallFailure, CallOptions, Heard, Lane, LaneDescription, Lanes, Notifications, OpenError,
    OpenOptions, Question, QuestionReply, ServerDescription, Session, TaskRequest,
};
pub use taskgate_wire::{LogLevel, Version};
pub use transport::http::{FailureKind, HttpServer, RequestFailure};
pub use transport::stdio::{ProcessControl, StdioCommand};
pub use transport::{CloseCause, CloseReason, Inbound, Link};

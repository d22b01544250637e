//! JSON-RPC 2.0 as MCP uses it: one message at a time, ids kept as they were spelled.

mod edges;
mod error;
mod id;
mod lines;
mod message;

pub use error::{ErrorCode, RpcError};
pub use id::Id;
pub use lines::{Line, Lines, one_line};
pub(crate) use message::present;
pub use message::{Malformed, Message};

//! JSON-RPC 2.0 as MCP uses it: one message at a time but for the batches of 2025-03-26, ids kept as they were spelled.

mod batch;
mod edges;
mod error;
mod id;
mod lines;
mod message;

pub use batch::{batch_text, is_batch, parse_batch};
pub use error::{ErrorCode, RpcError, error_object};
pub use id::Id;
pub use lines::{Line, Lines, one_line};
pub(crate) use message::present;
pub use message::{Malformed, Message};

//! Bytes to meaning and back: JSON-RPC, SSE, method names and the dialects of MCP Tasks.
//!
//! Synchronous and without sockets. JSON that is not ours stays raw text; only what is decided on is typed.

pub mod call;
pub mod dialect;
pub mod header;
pub mod hosted;
pub mod jsonrpc;
pub mod list;
pub mod log_level;
pub mod meta;
pub mod method;
pub mod own_task;
mod pages;
pub mod question;
pub mod raw;
pub mod reply;
pub mod sse;
pub mod tool;
pub mod translate;
pub mod uri_template;
pub mod version;

pub use call::{CallTool, Listen, Params};
pub use dialect::Dialect;
pub use jsonrpc::{ErrorCode, Id, Malformed, Message, RpcError};
pub use list::ListKind;
pub use log_level::LogLevel;
pub use meta::{Capabilities, Meta};
pub use pages::{NoEnd, Pages};
pub use raw::RawObject;
pub use reply::Reply;
pub use version::Version;

//! The requestor's side: calls that resolve to their result, whatever the server makes of them.
//!
//! A [`Client`] finds out by itself what its server speaks. [`Client::call`] gives a [`PendingCall`], which resolves to the
//! tool's result whether the server answers at once, makes a task of the call, or knows no tasks. What happens meanwhile
//! are [`Event`]s. A [`Handle`] is the way back to a task, in another process too.

mod ask;
mod builder;
mod call;
mod client;
mod connect;
mod drive;
mod endpoint;
mod error;
mod event;
mod feed;
mod handle;
mod hosting;
mod input;
mod logs;
mod pace;
mod random;
mod result;
#[cfg(feature = "ledger")]
mod resume;
#[cfg(test)]
mod tests;

pub use builder::{ClientBuilder, TaskUse};
pub use call::{CallRequest, PendingCall};
pub use client::Client;
pub use endpoint::{Endpoint, MemoryServer};
pub use error::{CallError, ConnectError, RpcFailure};
pub use event::{Event, Progress, TaskState, TaskStatus};
pub use handle::Handle;
pub use hosting::Hosting;
pub use input::{Answers, Input, InputAnswer, InputKind};
pub use logs::Logs;
pub use pace::{Pace, Rhythm};
#[cfg(feature = "ledger")]
pub(crate) use random::name as random_name;
pub use result::CallResult;
#[cfg(feature = "ledger")]
pub use resume::Unseen;

/// Now, in milliseconds since 1970: what handles and the ledger tell people. Nothing is decided by it but what is forgotten.
#[expect(clippy::disallowed_methods, reason = "the client has no engine, and this is no time of a task")]
pub(crate) fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

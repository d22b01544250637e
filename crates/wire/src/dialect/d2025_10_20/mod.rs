//! Tasks as SEP-1686 first had them (2025-10-20): a request is made a task by its metadata, under an id of the requestor's, and
//! is answered all the same.

mod decode;
mod encode;
pub mod requestor;
mod shapes;

pub use decode::{Call, TaskId, TaskRequest, asked, decode, is_augmentable, wanted};
pub use encode::{created, deleted, name_of, outcome, own, own_list, page, related, state};

/// The `_meta` key that makes a request a task.
pub const TASK: &str = "modelcontextprotocol.io/task";
/// The `_meta` key that ties a message to a task.
pub const RELATED_TASK: &str = "modelcontextprotocol.io/related-task";

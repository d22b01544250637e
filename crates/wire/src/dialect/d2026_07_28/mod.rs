//! The extension `io.modelcontextprotocol/tasks` under 2026-07-28 (SEP-2663).

mod decode;
mod encode;
mod shapes;

pub use decode::{Call, decode, missing_tasks_extension};
pub use encode::{acknowledged, encode, notification, with_result_type};

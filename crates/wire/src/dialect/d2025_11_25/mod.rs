//! Core tasks of 2025-11-25.

mod decode;
mod encode;
mod shapes;

pub use decode::{Call, cursor, decode};
pub use encode::{encode, notification, without_result_type};

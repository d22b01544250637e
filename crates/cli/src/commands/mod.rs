//! One command, one file.

pub mod check;
pub mod client;
pub mod completions;
pub mod man;
pub mod serve;
pub mod store;
pub mod supervise;
pub mod tasks;
pub mod wrap;

//! One command, one file.

pub mod check;
pub mod serve;
pub mod supervise;
pub mod wrap;

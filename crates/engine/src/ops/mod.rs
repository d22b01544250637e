//! The engine's verbs, one file each.

mod answer;
mod cancel;
mod get;
mod list;
mod named;
mod order;
mod submit;
mod wait;
mod watch;

pub use submit::Submitted;
pub use watch::Watch;

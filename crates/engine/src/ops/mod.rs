//! The engine's verbs, one file each.

mod answer;
mod cancel;
mod get;
mod list;
mod wait;
mod watch;

pub use watch::Watch;

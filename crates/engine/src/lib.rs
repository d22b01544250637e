//! Makes tasks last and run: stores, executor, expiry, recovery and the feed of what happened.
//!
//! The front door is [`Engine`]. It knows nothing of the protocol its callers speak.

mod clock;
mod feed;
pub mod store;

pub use clock::{Clock, SystemClock};
pub use feed::{Feed, Following, News};
pub use store::{MemoryStore, SqliteOptions, SqliteStore, Store, StoreError};

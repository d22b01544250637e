//! Makes tasks last and run: stores, executor, expiry, recovery and the feed of what happened.
//!
//! The front door is [`Engine`]. It knows nothing of the protocol its callers speak.

mod clock;
mod engine;
mod error;
mod feed;
mod ops;
mod seal;
pub mod store;
#[cfg(test)]
mod tests;
mod upkeep;
mod work;

pub use clock::{Clock, SystemClock};
pub use engine::{Engine, NodeSettings};
pub use error::EngineError;
pub use feed::{Feed, Following, News};
pub use ops::{Submitted, Watch};
pub use seal::{Nonce, Seal, Unsealable};
pub use store::{
    Key, KeyId, MemoryStore, Resealed, SealedStore, SqliteOptions, SqliteStore, Store, StoreError, Stored,
    Tally, unlock,
};
#[cfg(feature = "postgres")]
pub use store::{PostgresOptions, PostgresStore};
pub use work::{
    AnswerTo, Answered, Description, Ending, InlineCall, InlineEvent, Launch, NotStopped, Report, Runner,
    Work, sleep_until,
};

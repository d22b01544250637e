//! What a task is and which moves are legal.
//!
//! Everything here is pure: no async, no I/O, no clock and no protocol word. Time and randomness enter as
//! arguments, so that every rule can be tested exhaustively and every store applies the very same rules.
//! A store reads a [`Task`], hands it a [`Step`], and writes the record and the [`Event`] of the
//! resulting [`Change`] in one commit.

mod class;
mod event;
mod id;
mod input;
mod lifetime;
mod node;
mod outcome;
mod owner;
mod payload;
mod status;
mod step;
mod task;
mod time;
mod value;

pub use class::{WorkClass, pause_before};
pub use event::{Event, Who};
pub use id::{InvalidTaskId, TaskId};
pub use input::{Inputs, Question, Round};
pub use lifetime::{InvalidTtl, Lifetime, LifetimePolicy};
pub use node::{Carrier, NodeId};
pub use outcome::{Failure, Outcome};
pub use owner::Owner;
pub use payload::{InvalidPayload, Payload, what_is_wrong};
pub use status::Status;
pub use step::{Change, Loss, Order, Refusal, Step};
pub use task::{GivenId, IdempotencyKey, MAX_STATE, NewTask, Task};
pub use time::Timestamp;
pub use value::{KEY_DIGITS, Place, SEALED, SEALED_EXCESS, Value, sealed_weight};

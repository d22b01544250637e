//! Carrying work: runners, the call that may become a task, the executor, and what work reports.

mod begin;
mod description;
mod executor;
mod inline;
mod report;
mod runner;

pub(crate) use begin::died;
pub use description::Description;
pub use executor::sleep_until;
pub(crate) use executor::{Counted, Executor};
pub use inline::{InlineCall, InlineEvent, Launch};
pub use report::{AnswerTo, Answered, Report};
pub use runner::{Ending, NotStopped, Runner, Work};

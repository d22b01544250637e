//! Speaks to job APIs as they are declared: requests written as templates, answers read by expressions.
//!
//! A [`Declaration`] says how a job is started, looked at, fetched and cancelled; a [`JobApi`] does it. Nothing here knows of
//! tasks, of MCP or of a configuration file, and nothing decides when something is asked: that is the caller's.

mod answer;
mod api;
pub mod auth;
mod clock;
mod declaration;
mod engine;
mod failure;
mod host;
mod http;
mod request;
mod retry_after;
mod scope;
mod template;

pub use answer::Answer;
pub use api::{Asked, Call, JobApi, Seen, Started};
pub use auth::Auth;
pub use declaration::{
    Cancel, Declaration, Detail, Extract, JobState, Logs, Question, ResultOf, Start, Status,
};
pub use failure::{Failure, Refusal};
pub use http::Http;
pub use request::{BodyKind, Codes, RequestTemplate};
pub use scope::Scope;
pub use taskgate_credentials::Secret;
pub use template::{Escape, Expression, Fault, Template, settle};

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

use crate::{Engine, EngineError};

pub use submit::Submitted;
pub use watch::Watch;

impl Engine {
    /// Sees something through that begins with a commit, although whoever asked for it may go away at any moment: what is
    /// committed must have its consequences for the work that is carried here.
    async fn see_through<T: Send + 'static>(
        &self,
        moves: impl Future<Output = Result<T, EngineError>> + Send + 'static,
    ) -> Result<T, EngineError> {
        let seen_through = tokio::spawn(moves).await;
        seen_through.unwrap_or_else(|broken| Err(EngineError::Store(broken.to_string())))
    }
}

use taskgate_task::{GivenId, IdempotencyKey, Owner, Task};

use crate::{Engine, EngineError};

impl Engine {
    /// The owner's task to which its requestor has given this id. Unknown, foreign and expired ones are the same.
    pub async fn named(&self, owner: &Owner, given: &GivenId) -> Result<Task, EngineError> {
        // Whatever the digest: an id names its task whoever asks for it.
        let key = IdempotencyKey::of_given_id(given, [0; 32]);
        match self.0.store.keyed(owner, &key).await? {
            Some((id, _)) => self.get(owner, id).await,
            None => Err(EngineError::NotFound),
        }
    }
}

use taskgate_task::Owner;

use crate::store::Page;
use crate::{Engine, EngineError};

impl Engine {
    /// The owner's tasks after the locator `after`, oldest first, at most `limit`; expired ones are left out.
    pub async fn list(&self, owner: &Owner, after: Option<i64>, limit: usize) -> Result<Page, EngineError> {
        let mut page = self.0.store.list(owner, after, limit).await?;
        page.tasks.retain(|task| !self.is_expired(task));
        Ok(page)
    }
}

use serde::Deserialize;
use taskgate_engine::EngineError;
use taskgate_task::{Task, TaskId};

use super::Desk;

/// How many digits of an id say where its task lies.
const LOCATOR: usize = 16;

impl Desk {
    /// The task that is meant: by its id, or by the part of it that is no secret.
    pub(super) async fn find(&self, name: &str) -> Result<Task, EngineError> {
        let locator = match (TaskId::parse(name), name.len()) {
            (Ok(id), _) => {
                return self.0.store().get(id).await?.ok_or(EngineError::NotFound);
            }
            (Err(_), LOCATOR) => i64::from_str_radix(name, 16).map_err(|_| EngineError::NotFound)?,
            (Err(_), _) => return Err(EngineError::NotFound),
        };
        let page = self.0.store().all(Some(locator.saturating_sub(1)), 1).await?;
        let found = page.tasks.into_iter().find(|task| task.id.locator() == locator);
        found.ok_or(EngineError::NotFound)
    }

    /// The upstream's name of the tool that the task calls, as long as that is known.
    pub(super) async fn tool_of(&self, task: &Task) -> Result<Option<String>, EngineError> {
        #[derive(Deserialize)]
        struct Request {
            params: Params,
        }
        #[derive(Deserialize)]
        struct Params {
            name: String,
        }
        if task.status.is_terminal() {
            return Ok(None);
        }
        let work = self.0.store().work(task.id).await?;
        let request = work.and_then(|work| serde_json::from_str::<Request>(work.as_str()).ok());
        Ok(request.map(|request| request.params.name))
    }
}

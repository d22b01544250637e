use taskgate_task::{Outcome, Payload};

use crate::StoreError;
use crate::store::postgres::reader::Params;
use crate::store::postgres::text::kept;
use crate::store::{KeptTask, columns};

/// The parameters of `task_rewrite.sql`.
pub(in crate::store::postgres) fn rewritten(all: &[KeptTask]) -> Result<Params, StoreError> {
    let unwritable = |error| StoreError::Failed(format!("the inputs cannot be written: {error}"));
    let (mut locators, mut versions) = (Vec::new(), Vec::new());
    let mut texts: [Vec<Option<String>>; 6] = Default::default();
    for KeptTask { task, work, .. } in all {
        locators.push(task.id.locator());
        versions.push(columns::count(task.version));
        let text = |text: &str| kept(text).into_owned();
        let json = |payload: &Payload| payload.as_str().to_owned();
        let outcome = task.outcome.as_ref();
        let row = [
            task.status_message.as_deref().map(text),
            outcome.and_then(Outcome::summary).map(text),
            columns::inputs(task).map_err(unwritable)?,
            task.checkpoint.as_ref().map(json),
            outcome.map(Outcome::body).map(json),
            work.as_ref().map(json),
        ];
        texts.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
    }
    let mut params: Params = vec![Box::new(locators), Box::new(versions)];
    params.extend(texts.into_iter().map(|column| Box::new(column) as _));
    Ok(params)
}

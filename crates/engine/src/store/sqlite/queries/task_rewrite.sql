-- The same values in another form: nothing has happened to the task.
UPDATE task
SET status_message = ?2, summary = ?3, inputs = ?4, checkpoint = ?5, checkpoint_blob = ?6, outcome = ?7,
    outcome_blob = ?8, work = ?9, work_blob = ?10
WHERE locator = ?1

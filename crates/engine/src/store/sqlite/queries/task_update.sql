-- What never changes in a task's life (id, owner, runner, class, creation, work) is not written again.
UPDATE task
SET status = ?2, version = ?3, fence = ?4, attempts = ?5, updated_at = ?6, ended_at = ?7, due_at = ?8,
    run_deadline = ?9, idle_limit_ms = ?10, retention_ms = ?11, ttl_ms = ?12, poll_interval_ms = ?13,
    failure = ?14, outcome_kind = ?15, status_message = ?16, summary = ?17, inputs = ?18, outcome = ?19
WHERE locator = ?1

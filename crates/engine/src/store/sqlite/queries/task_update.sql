-- What never changes in a task's life (id, owner, runner, class, key, creation) is not written again. The description of
-- the work goes when nobody can want it any more (?25): it holds what the caller sent.
UPDATE task
SET status = ?2, version = ?3, fence = ?4, attempts = ?5, updated_at = ?6, ended_at = ?7, due_at = ?8,
    run_deadline = ?9, idle_limit_ms = ?10, retention_ms = ?11, ttl_ms = ?12, poll_interval_ms = ?13,
    failure = ?14, outcome_kind = ?15, status_message = ?16, summary = ?17, inputs = ?18, outcome = ?19,
    carrier = ?20, ready_at = ?21, checkpoint = ?22, outcome_blob = ?23, checkpoint_blob = ?24,
    work = CASE WHEN ?25 THEN work END, work_blob = CASE WHEN ?25 THEN work_blob END
WHERE locator = ?1

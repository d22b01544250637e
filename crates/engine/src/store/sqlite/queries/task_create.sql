-- The parameters up to ?24 are those of task_update.sql. A taken locator inserts nothing.
INSERT INTO task (
    locator, status, version, fence, attempts, updated_at, ended_at, due_at, run_deadline, idle_limit_ms,
    retention_ms, ttl_ms, poll_interval_ms, failure, outcome_kind, status_message, summary, inputs, outcome,
    carrier, ready_at, checkpoint, outcome_blob, checkpoint_blob,
    secret, owner, runner, class, created_at, work, work_blob, max_attempts, key_tool, key, key_digest
)
VALUES (
    ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10,
    ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19,
    ?20, ?21, ?22, ?23, ?24,
    ?25, ?26, ?27, ?28, ?29, ?30, ?31, ?32, ?33, ?34, ?35
)
ON CONFLICT (locator) DO NOTHING

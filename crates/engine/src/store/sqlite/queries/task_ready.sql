SELECT locator, secret, owner, runner, class, status, version, fence, attempts, created_at, updated_at, ended_at,
       run_deadline, idle_limit_ms, retention_ms, ttl_ms, poll_interval_ms, failure, outcome_kind, status_message,
       summary, inputs, NULL AS outcome, carrier, ready_at, max_attempts,
       CASE WHEN typeof(checkpoint) = 'text' OR checkpoint_blob IS NOT NULL THEN 'null' END AS checkpoint,
       checkpoint_blob, outcome_blob, work_blob, key_tool, key
FROM task
WHERE ready_at <= ?1
ORDER BY ready_at, locator
LIMIT ?2

-- The planner would rather walk the whole table, since both orders are the same to it.
SELECT locator, secret, owner, runner, class, status, version, fence, attempts, created_at, updated_at, ended_at,
       run_deadline, idle_limit_ms, retention_ms, ttl_ms, poll_interval_ms, failure, outcome_kind, status_message,
       summary, inputs, NULL AS outcome
FROM task INDEXED BY task_open
WHERE ended_at IS NULL AND locator > ?1
ORDER BY locator
LIMIT ?2

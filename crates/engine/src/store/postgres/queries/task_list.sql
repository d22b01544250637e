SELECT locator, secret, owner, runner, class, status, version, fence, attempts, created_at, updated_at, ended_at,
       run_deadline, idle_limit_ms, retention_ms, ttl_ms, poll_interval_ms, failure, outcome_kind, status_message,
       summary, inputs, NULL::text AS outcome, carrier, ready_at, max_attempts,
       CASE WHEN checkpoint IS NOT NULL THEN 'null' END AS checkpoint, key_tool, key
FROM task
WHERE owner = $1 AND locator > $2
ORDER BY locator
LIMIT $3

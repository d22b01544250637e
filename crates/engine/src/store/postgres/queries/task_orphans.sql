-- Goes from carrier to carrier through the index, one look-up each, however many tasks the living ones carry.
WITH RECURSIVE carrying (node) AS (
    (SELECT carrier FROM task WHERE carrier IS NOT NULL ORDER BY carrier LIMIT 1)
    UNION ALL
    SELECT (SELECT carrier FROM task WHERE carrier > carrying.node ORDER BY carrier LIMIT 1)
    FROM carrying
    WHERE carrying.node IS NOT NULL
),
gone (node) AS MATERIALIZED (
    SELECT carrying.node
    FROM carrying
    WHERE carrying.node IS NOT NULL AND NOT EXISTS (SELECT FROM node WHERE node.id = carrying.node)
)
SELECT orphan.*
FROM gone
CROSS JOIN LATERAL (
    SELECT locator, secret, owner, runner, class, status, version, fence, attempts, created_at, updated_at, ended_at,
           run_deadline, idle_limit_ms, retention_ms, ttl_ms, poll_interval_ms, failure, outcome_kind, status_message,
           summary, inputs, NULL::text AS outcome, carrier, ready_at, max_attempts,
           CASE WHEN checkpoint IS NOT NULL THEN 'null' END AS checkpoint, key_tool, key
    FROM task
    WHERE carrier = gone.node
    LIMIT $1
) AS orphan
LIMIT $1

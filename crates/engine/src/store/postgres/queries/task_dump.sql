-- As many tasks as were asked for, up to the one with which they are long enough ($3). The lengths are told by the heads of
-- the values, which are not read for that. Events come with their task, so that all of it is of one moment.
WITH page AS (
    SELECT locator,
           coalesce(octet_length(work), 0) + coalesce(octet_length(outcome), 0)
               + coalesce(octet_length(checkpoint), 0) AS length
    FROM task
    WHERE locator > $1
    ORDER BY locator
    LIMIT $2
),
before AS (
    SELECT locator,
           coalesce(sum(length) OVER (ORDER BY locator ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS length
    FROM page
)
SELECT task.locator, secret, owner, runner, class, status, version, fence, attempts, created_at, updated_at, ended_at,
       run_deadline, idle_limit_ms, retention_ms, ttl_ms, poll_interval_ms, failure, outcome_kind, status_message,
       summary, inputs, outcome, carrier, ready_at, max_attempts, checkpoint, work, key_tool, key, key_digest,
       (
           SELECT json_agg(json_build_array(version, at, who, from_status, to_status, why) ORDER BY version)::text
           FROM event
           WHERE event.task = task.locator
       ) AS events
FROM before
JOIN task ON task.locator = before.locator
WHERE before.length < $3
ORDER BY task.locator

-- What never changes in a task's life (id, owner, runner, class, key, creation) is not written again. The description of
-- the work goes when nobody can want it any more ($23): it holds what the caller sent.
UPDATE task
SET status = new.status, version = new.version, fence = new.fence, attempts = new.attempts,
    updated_at = new.updated_at, ended_at = new.ended_at, due_at = new.due_at, run_deadline = new.run_deadline,
    idle_limit_ms = new.idle_limit_ms, retention_ms = new.retention_ms, ttl_ms = new.ttl_ms,
    poll_interval_ms = new.poll_interval_ms, failure = new.failure, outcome_kind = new.outcome_kind,
    status_message = new.status_message, summary = new.summary, inputs = new.inputs, outcome = new.outcome,
    carrier = new.carrier, ready_at = new.ready_at, checkpoint = new.checkpoint,
    work = CASE WHEN new.is_work_wanted THEN task.work END
FROM unnest(
    $1::bigint[], $2::smallint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[],
    $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::smallint[], $15::smallint[],
    $16::text[], $17::text[], $18::text[], $19::text[], $20::bigint[], $21::bigint[], $22::text[], $23::boolean[]
) AS new (
    locator, status, version, fence, attempts, updated_at, ended_at, due_at, run_deadline, idle_limit_ms,
    retention_ms, ttl_ms, poll_interval_ms, failure, outcome_kind, status_message, summary, inputs, outcome,
    carrier, ready_at, checkpoint, is_work_wanted
)
WHERE task.locator = new.locator

-- The parameters up to $22 are those of task_update.sql. A taken locator or key fails the statement and with it the
-- transaction: it was looked for under the lock, so somebody else has taken it since, and a new look will find it.
INSERT INTO task (
    locator, status, version, fence, attempts, updated_at, ended_at, due_at, run_deadline, idle_limit_ms,
    retention_ms, ttl_ms, poll_interval_ms, failure, outcome_kind, status_message, summary, inputs, outcome,
    carrier, ready_at, checkpoint,
    secret, owner, runner, class, created_at, work, max_attempts, key_tool, key, key_digest
)
SELECT *
FROM unnest(
    $1::bigint[], $2::smallint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[],
    $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::smallint[], $15::smallint[],
    $16::text[], $17::text[], $18::text[], $19::text[], $20::bigint[], $21::bigint[], $22::text[],
    $23::bytea[], $24::text[], $25::text[], $26::smallint[], $27::bigint[], $28::text[], $29::bigint[], $30::text[],
    $31::text[], $32::bytea[]
)

-- The same values in another form: nothing has happened to the tasks. They are locked in the order of every other write.
WITH held AS MATERIALIZED (
    SELECT locator, version
    FROM task
    WHERE locator = ANY ($1)
    ORDER BY locator
    FOR UPDATE
)
UPDATE task
SET status_message = new.status_message, summary = new.summary, inputs = new.inputs, checkpoint = new.checkpoint,
    outcome = new.outcome, work = new.work
FROM held, unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[])
     AS new (locator, version, status_message, summary, inputs, checkpoint, outcome, work)
WHERE held.locator = new.locator AND held.version = new.version AND task.locator = held.locator
RETURNING task.locator

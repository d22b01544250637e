-- Work of more kinds, carried by nodes: what was open belongs to no node of today, so it is taken over at the next start.
-- Long payloads get a table of their own, so that a line of progress does not write megabytes again with its row.
-- The table of tasks is made anew because its checks change.
--   class         3 resumable, 4 external
DROP VIEW task_for_people;
ALTER TABLE task RENAME TO task_1;
DROP INDEX task_by_owner;
DROP INDEX task_by_due;
DROP INDEX task_open;

CREATE TABLE task (
    locator          INTEGER PRIMARY KEY,
    secret           BLOB    NOT NULL CHECK (length(secret) = 16),
    owner            TEXT    NOT NULL,
    runner           TEXT    NOT NULL,
    class            INTEGER NOT NULL CHECK (class BETWEEN 1 AND 4),
    status           INTEGER NOT NULL CHECK (status BETWEEN 1 AND 5),
    version          INTEGER NOT NULL CHECK (version >= 1),
    fence            INTEGER NOT NULL,
    -- The node that carries the work; else when it may be begun; neither if nothing is to be done.
    carrier          INTEGER,
    ready_at         INTEGER,
    attempts         INTEGER NOT NULL,
    max_attempts     INTEGER NOT NULL,
    created_at       INTEGER NOT NULL,
    updated_at       INTEGER NOT NULL,
    ended_at         INTEGER,
    due_at           INTEGER NOT NULL,
    run_deadline     INTEGER NOT NULL,
    idle_limit_ms    INTEGER,
    retention_ms     INTEGER NOT NULL,
    ttl_ms           INTEGER NOT NULL,
    poll_interval_ms INTEGER NOT NULL,
    failure          INTEGER CHECK (failure BETWEEN 1 AND 4),
    outcome_kind     INTEGER CHECK (outcome_kind BETWEEN 1 AND 3),
    status_message   TEXT,
    summary          TEXT,
    -- The idempotency key, if there is one: unique for its owner and tool.
    key_tool         TEXT,
    key              TEXT,
    key_digest       BLOB CHECK (length(key_digest) = 32),
    -- All questions and answers as JSON; NULL while nothing was ever asked.
    inputs           TEXT,
    -- The keys of those payloads that are too long for the row.
    checkpoint_blob  INTEGER,
    outcome_blob     INTEGER,
    work_blob        INTEGER,
    -- The long columns come last, so that a row is read without them and without their overflow pages.
    checkpoint       TEXT,
    outcome          TEXT,
    work             TEXT,

    -- Exactly the terminal statuses have ended.
    CHECK ((status >= 3) = (ended_at IS NOT NULL)),
    CHECK (carrier IS NULL OR ready_at IS NULL),
    CHECK (status <> 1 OR carrier IS NOT NULL OR ready_at IS NOT NULL),
    CHECK (checkpoint IS NULL OR checkpoint_blob IS NULL),
    CHECK (outcome IS NULL OR outcome_blob IS NULL),
    CHECK (work IS NULL OR work_blob IS NULL),
    CHECK ((outcome_kind IS NULL) = (outcome IS NULL AND outcome_blob IS NULL)),
    CHECK ((key IS NULL) = (key_tool IS NULL) AND (key IS NULL) = (key_digest IS NULL)),
    -- A result completes a task; an error from the work or a failure of our own, never both, fails it.
    CHECK ((status = 3) = (outcome_kind IS 1 OR outcome_kind IS 2)),
    CHECK ((status = 4) = (outcome_kind IS 3 OR failure IS NOT NULL)),
    CHECK (outcome_kind IS NULL OR failure IS NULL)
) STRICT;

-- Work that had ended its call to ask is carried by nobody; with all its answers there it is ready. What it wants to get
-- back may be a JSON null, which is something else than nothing.
INSERT INTO task
SELECT locator, secret, owner, runner, class, status, version, fence,
       CASE WHEN status <= 2 AND json_type(inputs, '$.resume') IS NULL THEN 0 END,
       CASE WHEN status = 1 AND json_type(inputs, '$.resume') IS NOT NULL THEN updated_at END,
       attempts, 5, created_at, updated_at, ended_at, due_at, run_deadline, idle_limit_ms, retention_ms, ttl_ms,
       poll_interval_ms, failure, outcome_kind, status_message, summary, NULL, NULL, NULL, inputs, NULL, NULL, NULL,
       NULL, outcome, work
FROM task_1;

DROP TABLE task_1;

-- An index carries the locator anyway, so this one is (owner, locator): an owner's tasks, oldest first.
CREATE INDEX task_by_owner ON task (owner);
-- Likewise (due_at, locator).
CREATE INDEX task_by_due ON task (due_at);
-- However many tasks there are, these hold only those that somebody carries or should begin to.
CREATE INDEX task_by_carrier ON task (carrier) WHERE carrier IS NOT NULL;
CREATE INDEX task_by_ready ON task (ready_at) WHERE ready_at IS NOT NULL;
CREATE UNIQUE INDEX task_by_key ON task (owner, key_tool, key) WHERE key IS NOT NULL;

-- A rowid table: a search in the tree of one without compares whole rows, so it would read megabytes to find one.
CREATE TABLE blob (
    key  INTEGER PRIMARY KEY,
    task INTEGER NOT NULL,
    body TEXT    NOT NULL
) STRICT;

CREATE TABLE node (
    id          INTEGER PRIMARY KEY,
    name        TEXT    NOT NULL,
    joined_at   INTEGER NOT NULL,
    lease_until INTEGER NOT NULL
) STRICT;

-- For people with a shell: no secrets, no payloads.
CREATE VIEW task_for_people AS
SELECT format('%016x', locator) AS locator, owner, runner,
       CASE class WHEN 1 THEN 'live' WHEN 2 THEN 'repeatable' WHEN 3 THEN 'resumable'
                  WHEN 4 THEN 'external' END AS class,
       CASE status WHEN 1 THEN 'working' WHEN 2 THEN 'input_required' WHEN 3 THEN 'completed'
                   WHEN 4 THEN 'failed' WHEN 5 THEN 'cancelled' END AS status,
       CASE failure WHEN 1 THEN 'run_limit' WHEN 2 THEN 'idle_limit' WHEN 3 THEN 'interrupted'
                    WHEN 4 THEN 'no_runner' END AS failure,
       CASE outcome_kind WHEN 1 THEN 'result' WHEN 2 THEN 'result_is_error' WHEN 3 THEN 'error' END AS outcome,
       version, fence, attempts, format('%016x', carrier) AS node,
       strftime('%Y-%m-%dT%H:%M:%SZ', created_at / 1000, 'unixepoch') AS created_at,
       strftime('%Y-%m-%dT%H:%M:%SZ', updated_at / 1000, 'unixepoch') AS updated_at,
       strftime('%Y-%m-%dT%H:%M:%SZ', ended_at / 1000, 'unixepoch') AS ended_at,
       strftime('%Y-%m-%dT%H:%M:%SZ', due_at / 1000, 'unixepoch') AS due_at,
       status_message
FROM task;

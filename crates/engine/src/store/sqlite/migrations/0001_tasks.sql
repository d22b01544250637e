-- Times (`..._at`, `run_deadline`) are milliseconds since the Unix epoch, spans (`..._ms`) are milliseconds.
-- Codes are small numbers because every row carries them; the views below spell them out for people.
--   status        1 working, 2 input_required, 3 completed, 4 failed, 5 cancelled
--   class         1 live, 2 repeatable
--   failure       1 run_limit, 2 idle_limit, 3 interrupted, 4 no_runner
--   outcome_kind  1 result, 2 result that says it is an error, 3 JSON-RPC error
--   who           1 requestor, 2 runner, 3 receiver
CREATE TABLE task (
    locator          INTEGER PRIMARY KEY,
    secret           BLOB    NOT NULL CHECK (length(secret) = 16),
    owner            TEXT    NOT NULL,
    runner           TEXT    NOT NULL,
    class            INTEGER NOT NULL CHECK (class BETWEEN 1 AND 2),
    status           INTEGER NOT NULL CHECK (status BETWEEN 1 AND 5),
    version          INTEGER NOT NULL CHECK (version >= 1),
    fence            INTEGER NOT NULL,
    attempts         INTEGER NOT NULL,
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
    -- All questions and answers as JSON; NULL while nothing was ever asked.
    inputs           TEXT,
    -- The long columns come last, so that a row is read without them and without their overflow pages.
    outcome          TEXT,
    work             TEXT,

    -- Exactly the terminal statuses have ended.
    CHECK ((status >= 3) = (ended_at IS NOT NULL)),
    CHECK ((status >= 3) = (work IS NULL)),
    CHECK ((outcome IS NULL) = (outcome_kind IS NULL)),
    -- A result completes a task; an error from the work or a failure of our own, never both, fails it.
    CHECK ((status = 3) = (outcome_kind IS 1 OR outcome_kind IS 2)),
    CHECK ((status = 4) = (outcome_kind IS 3 OR failure IS NOT NULL)),
    CHECK (outcome_kind IS NULL OR failure IS NULL)
) STRICT;

-- An index carries the locator anyway, so this one is (owner, locator): an owner's tasks, oldest first.
CREATE INDEX task_by_owner ON task (owner);
-- Likewise (due_at, locator).
CREATE INDEX task_by_due ON task (due_at);
-- Recovery walks the tasks that have not ended, however many ended ones there are.
CREATE INDEX task_open ON task (locator) WHERE ended_at IS NULL;

CREATE TABLE event (
    task        INTEGER NOT NULL,
    version     INTEGER NOT NULL,
    at          INTEGER NOT NULL,
    who         INTEGER NOT NULL CHECK (who BETWEEN 1 AND 3),
    from_status INTEGER CHECK (from_status BETWEEN 1 AND 5),
    to_status   INTEGER NOT NULL CHECK (to_status BETWEEN 1 AND 5),
    why         TEXT    NOT NULL,
    PRIMARY KEY (task, version)
) STRICT, WITHOUT ROWID;

CREATE TABLE secret (
    name  TEXT PRIMARY KEY,
    value BLOB NOT NULL CHECK (length(value) = 32)
) STRICT, WITHOUT ROWID;

-- For people with a shell: no secrets, no payloads.
CREATE VIEW task_for_people AS
SELECT format('%016x', locator) AS locator, owner, runner,
       CASE class WHEN 1 THEN 'live' WHEN 2 THEN 'repeatable' END AS class,
       CASE status WHEN 1 THEN 'working' WHEN 2 THEN 'input_required' WHEN 3 THEN 'completed'
                   WHEN 4 THEN 'failed' WHEN 5 THEN 'cancelled' END AS status,
       CASE failure WHEN 1 THEN 'run_limit' WHEN 2 THEN 'idle_limit' WHEN 3 THEN 'interrupted'
                    WHEN 4 THEN 'no_runner' END AS failure,
       CASE outcome_kind WHEN 1 THEN 'result' WHEN 2 THEN 'result_is_error' WHEN 3 THEN 'error' END AS outcome,
       version, fence, attempts,
       strftime('%Y-%m-%dT%H:%M:%SZ', created_at / 1000, 'unixepoch') AS created_at,
       strftime('%Y-%m-%dT%H:%M:%SZ', updated_at / 1000, 'unixepoch') AS updated_at,
       strftime('%Y-%m-%dT%H:%M:%SZ', ended_at / 1000, 'unixepoch') AS ended_at,
       strftime('%Y-%m-%dT%H:%M:%SZ', due_at / 1000, 'unixepoch') AS due_at,
       status_message
FROM task;

CREATE VIEW event_for_people AS
SELECT format('%016x', task) AS task, version,
       strftime('%Y-%m-%dT%H:%M:%SZ', at / 1000, 'unixepoch') AS at,
       CASE who WHEN 1 THEN 'requestor' WHEN 2 THEN 'runner' WHEN 3 THEN 'receiver' END AS who,
       CASE from_status WHEN 1 THEN 'working' WHEN 2 THEN 'input_required' WHEN 3 THEN 'completed'
                        WHEN 4 THEN 'failed' WHEN 5 THEN 'cancelled' END AS from_status,
       CASE to_status WHEN 1 THEN 'working' WHEN 2 THEN 'input_required' WHEN 3 THEN 'completed'
                      WHEN 4 THEN 'failed' WHEN 5 THEN 'cancelled' END AS to_status,
       why
FROM event;

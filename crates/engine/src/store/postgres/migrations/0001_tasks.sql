-- Times (`..._at`, `run_deadline`, `lease_until`) are milliseconds since the Unix epoch, spans (`..._ms`) are milliseconds.
-- Codes are small numbers because every row carries them; the views below spell them out for people.
--   status        1 working, 2 input_required, 3 completed, 4 failed, 5 cancelled
--   class         1 live, 2 repeatable, 3 resumable, 4 external
--   failure       1 run_limit, 2 idle_limit, 3 interrupted, 4 no_runner
--   outcome_kind  1 result, 2 result that says it is an error, 3 JSON-RPC error
--   who           1 requestor, 2 runner, 3 receiver
-- Texts compare byte for byte (collation "C"). Postgres cannot hold the character U+0000: `text.rs` says what stands for it.
-- JSON is text and not jsonb, which would change it: member order, the spelling of numbers.
-- Long values move out of the row, compressed, by themselves (TOAST), and an update that keeps them does not write
-- them again. Compression is left on: JSON shrinks well, and less of it goes through the log that a commit waits for.
CREATE TABLE task (
    locator          bigint   PRIMARY KEY,
    secret           bytea    NOT NULL CHECK (length(secret) = 16),
    owner            text     COLLATE "C" NOT NULL,
    runner           text     COLLATE "C" NOT NULL,
    class            smallint NOT NULL CHECK (class BETWEEN 1 AND 4),
    status           smallint NOT NULL CHECK (status BETWEEN 1 AND 5),
    version          bigint   NOT NULL CHECK (version >= 1),
    fence            bigint   NOT NULL,
    -- The node that carries the work; else when it may be begun; neither if nothing is to be done.
    carrier          bigint,
    ready_at         bigint,
    attempts         bigint   NOT NULL,
    max_attempts     bigint   NOT NULL,
    created_at       bigint   NOT NULL,
    updated_at       bigint   NOT NULL,
    ended_at         bigint,
    due_at           bigint   NOT NULL,
    run_deadline     bigint   NOT NULL,
    idle_limit_ms    bigint,
    retention_ms     bigint   NOT NULL,
    ttl_ms           bigint   NOT NULL,
    poll_interval_ms bigint   NOT NULL,
    failure          smallint CHECK (failure BETWEEN 1 AND 4),
    outcome_kind     smallint CHECK (outcome_kind BETWEEN 1 AND 3),
    status_message   text     COLLATE "C",
    summary          text     COLLATE "C",
    -- The idempotency key, if there is one: unique for its owner and tool.
    key_tool         text     COLLATE "C",
    key              text     COLLATE "C",
    key_digest       bytea    CHECK (length(key_digest) = 32),
    -- All questions and answers as JSON; NULL while nothing was ever asked.
    inputs           text     COLLATE "C",
    checkpoint       text     COLLATE "C",
    outcome          text     COLLATE "C",
    work             text     COLLATE "C",

    -- Exactly the terminal statuses have ended.
    CHECK ((status >= 3) = (ended_at IS NOT NULL)),
    CHECK (carrier IS NULL OR ready_at IS NULL),
    CHECK (status <> 1 OR carrier IS NOT NULL OR ready_at IS NOT NULL),
    CHECK (outcome IS NULL OR outcome_kind IS NOT NULL),
    CHECK ((key IS NULL) = (key_tool IS NULL) AND (key IS NULL) = (key_digest IS NULL)),
    -- A result completes a task; an error from the work or a failure of our own, never both, fails it.
    CHECK ((status = 3) = (outcome_kind IS NOT NULL AND outcome_kind IN (1, 2))),
    CHECK ((status = 4) = ((outcome_kind IS NOT NULL AND outcome_kind = 3) OR failure IS NOT NULL)),
    CHECK (outcome_kind IS NULL OR failure IS NULL)
)
-- Room in each page for new versions of its rows: a report then touches neither another page nor an index.
WITH (fillfactor = 85);

CREATE INDEX task_by_owner ON task (owner, locator);
CREATE INDEX task_by_due ON task (due_at, locator);
-- However many tasks there are, these hold only those that somebody carries or should begin to.
CREATE INDEX task_by_carrier ON task (carrier, locator) WHERE carrier IS NOT NULL;
CREATE INDEX task_by_ready ON task (ready_at, locator) WHERE ready_at IS NOT NULL;
CREATE UNIQUE INDEX task_by_key ON task (owner, key_tool, key) WHERE key IS NOT NULL;

CREATE TABLE event (
    task        bigint   NOT NULL,
    version     bigint   NOT NULL,
    at          bigint   NOT NULL,
    who         smallint NOT NULL CHECK (who BETWEEN 1 AND 3),
    from_status smallint CHECK (from_status BETWEEN 1 AND 5),
    to_status   smallint NOT NULL CHECK (to_status BETWEEN 1 AND 5),
    why         text     COLLATE "C" NOT NULL,
    PRIMARY KEY (task, version)
);

CREATE TABLE node (
    id          bigint PRIMARY KEY,
    name        text   COLLATE "C" NOT NULL,
    joined_at   bigint NOT NULL,
    lease_until bigint NOT NULL
);

-- The last transaction that each session has committed. It says what became of one whose session ended meanwhile.
CREATE TABLE mark (
    session text        COLLATE "C" PRIMARY KEY,
    xact    text        NOT NULL,
    at      timestamptz NOT NULL DEFAULT now()
)
WITH (fillfactor = 50);

CREATE TABLE secret (
    name  text  COLLATE "C" PRIMARY KEY,
    value bytea NOT NULL CHECK (length(value) = 32)
);

-- For people with a shell: no secrets, no payloads.
CREATE VIEW task_for_people AS
SELECT lpad(to_hex(locator), 16, '0') AS locator, owner, runner,
       CASE class WHEN 1 THEN 'live' WHEN 2 THEN 'repeatable' WHEN 3 THEN 'resumable'
                  WHEN 4 THEN 'external' END AS class,
       CASE status WHEN 1 THEN 'working' WHEN 2 THEN 'input_required' WHEN 3 THEN 'completed'
                   WHEN 4 THEN 'failed' WHEN 5 THEN 'cancelled' END AS status,
       CASE failure WHEN 1 THEN 'run_limit' WHEN 2 THEN 'idle_limit' WHEN 3 THEN 'interrupted'
                    WHEN 4 THEN 'no_runner' END AS failure,
       CASE outcome_kind WHEN 1 THEN 'result' WHEN 2 THEN 'result_is_error' WHEN 3 THEN 'error' END AS outcome,
       version, fence, attempts, lpad(to_hex(carrier), 16, '0') AS node,
       to_timestamp(created_at / 1000.0) AS created_at,
       to_timestamp(updated_at / 1000.0) AS updated_at,
       to_timestamp(ended_at / 1000.0) AS ended_at,
       CASE WHEN due_at < 250000000000000 THEN to_timestamp(due_at / 1000.0) ELSE 'infinity' END AS due_at,
       status_message
FROM task;

CREATE VIEW event_for_people AS
SELECT lpad(to_hex(task), 16, '0') AS task, version,
       to_timestamp(at / 1000.0) AS at,
       CASE who WHEN 1 THEN 'requestor' WHEN 2 THEN 'runner' WHEN 3 THEN 'receiver' END AS who,
       CASE from_status WHEN 1 THEN 'working' WHEN 2 THEN 'input_required' WHEN 3 THEN 'completed'
                        WHEN 4 THEN 'failed' WHEN 5 THEN 'cancelled' END AS from_status,
       CASE to_status WHEN 1 THEN 'working' WHEN 2 THEN 'input_required' WHEN 3 THEN 'completed'
                      WHEN 4 THEN 'failed' WHEN 5 THEN 'cancelled' END AS to_status,
       why
FROM event;

CREATE TABLE call (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    -- The life of the program that sees to it.
    run TEXT NOT NULL,
    endpoint TEXT NOT NULL,
    tool TEXT NOT NULL,
    -- SHA-256 of the arguments with sorted members. The arguments are nobody's business here.
    digest BLOB NOT NULL,
    key TEXT,
    -- Whether the key went out with the call.
    keyed INTEGER NOT NULL,
    -- sent, accepted, ended
    state TEXT NOT NULL,
    version TEXT,
    task TEXT,
    -- The session at its server that the task was made in.
    session TEXT,
    -- Milliseconds since 1970.
    created INTEGER NOT NULL,
    -- How it ended, in one word.
    outcome TEXT
) STRICT;

CREATE INDEX call_open ON call (endpoint, task) WHERE state <> 'ended';

CREATE TABLE answered (
    call INTEGER NOT NULL REFERENCES call (id) ON DELETE CASCADE,
    key TEXT NOT NULL,
    PRIMARY KEY (call, key)
) STRICT, WITHOUT ROWID;

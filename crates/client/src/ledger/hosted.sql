-- Tasks that this client hosts for servers (2025-11-25).
CREATE TABLE hosted (
    id TEXT PRIMARY KEY,
    -- The life of the program that sees to it.
    run TEXT NOT NULL,
    endpoint TEXT NOT NULL,
    -- What was asked; the params go when it is over.
    method TEXT NOT NULL,
    params TEXT,
    status TEXT NOT NULL,
    message TEXT,
    -- What came of it.
    result TEXT,
    error TEXT,
    -- Milliseconds since 1970, and how many of them it is kept.
    created INTEGER NOT NULL,
    updated INTEGER NOT NULL,
    ttl INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

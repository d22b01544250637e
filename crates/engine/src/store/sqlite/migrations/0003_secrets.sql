-- A secret may be kept encrypted, which makes it longer, and the table also holds what must be known of the keys.
ALTER TABLE secret RENAME TO secret_2;

CREATE TABLE secret (
    name  TEXT PRIMARY KEY,
    value BLOB NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO secret SELECT name, value FROM secret_2;

DROP TABLE secret_2;

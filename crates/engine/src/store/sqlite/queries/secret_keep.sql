-- Whoever keeps a value first wins; the caller reads back which one that was.
INSERT INTO secret (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO NOTHING

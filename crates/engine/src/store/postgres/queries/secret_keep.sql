-- Whoever keeps a value first wins. The update changes nothing, but unlike DO NOTHING it waits for and returns that value.
INSERT INTO secret (name, value) VALUES ($1, $2)
ON CONFLICT (name) DO UPDATE SET name = excluded.name
RETURNING value

-- Only inserts: other nodes live on. A repetition after a lost connection finds its own row.
INSERT INTO node (id, name, joined_at, lease_until) VALUES ($1, $2, $3, $4)
ON CONFLICT (id) DO UPDATE SET lease_until = excluded.lease_until

INSERT INTO node (id, name, joined_at, lease_until) VALUES (?1, ?2, ?3, ?4)

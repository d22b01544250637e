INSERT INTO blob (task, body) VALUES (?1, ?2)

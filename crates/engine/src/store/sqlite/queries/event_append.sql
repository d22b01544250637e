INSERT INTO event (task, version, at, who, from_status, to_status, why)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)

UPDATE blob SET body = ?2 WHERE key = ?1

DELETE FROM blob WHERE key = ?1

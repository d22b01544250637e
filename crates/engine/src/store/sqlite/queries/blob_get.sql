SELECT body FROM blob WHERE key = ?1

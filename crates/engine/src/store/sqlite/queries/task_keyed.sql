SELECT locator, secret, key_digest
FROM task
WHERE owner = ?1 AND key_tool = ?2 AND key = ?3

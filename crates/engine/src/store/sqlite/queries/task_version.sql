SELECT secret, version
FROM task
WHERE locator = ?1

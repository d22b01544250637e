SELECT locator, secret, version
FROM task
WHERE locator = ANY ($1)

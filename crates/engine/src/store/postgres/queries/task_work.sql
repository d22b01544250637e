SELECT secret, work
FROM task
WHERE locator = $1

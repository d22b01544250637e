SELECT locator, secret
FROM task
WHERE due_at <= $1
ORDER BY due_at, locator
LIMIT $2

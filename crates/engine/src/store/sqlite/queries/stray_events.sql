SELECT DISTINCT task
FROM event
WHERE NOT EXISTS (SELECT 1 FROM task WHERE task.locator = event.task)
ORDER BY task
LIMIT ?1

SELECT secret, work, work_blob
FROM task
WHERE locator = ?1

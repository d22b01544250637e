SELECT DISTINCT blob.task
FROM blob LEFT JOIN task ON task.locator = blob.task
WHERE blob.key NOT IN (ifnull(checkpoint_blob, 0), ifnull(outcome_blob, 0), ifnull(work_blob, 0))
ORDER BY blob.task
LIMIT ?1

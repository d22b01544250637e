WITH events AS (DELETE FROM event WHERE task = ANY ($1))
DELETE FROM task WHERE locator = ANY ($1)

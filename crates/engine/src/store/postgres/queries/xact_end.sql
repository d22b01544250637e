-- Ends the session that a lost connection left behind, perhaps with its transaction open. No row: it has ended. The start
-- tells it from a later process that got the same number.
SELECT pg_terminate_backend(pid)
FROM pg_stat_activity
WHERE pid = $1 AND extract(epoch FROM backend_start)::text = $2

-- Ends the session that a lost connection left behind with its transaction open. The start tells it from a later process
-- that got the same number.
SELECT pg_terminate_backend(pid)
FROM pg_stat_activity
WHERE pid = $1 AND extract(epoch FROM backend_start)::text = $2

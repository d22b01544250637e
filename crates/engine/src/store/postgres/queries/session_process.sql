SELECT pid, extract(epoch FROM backend_start)::text AS started
FROM pg_stat_activity
WHERE pid = pg_backend_pid()

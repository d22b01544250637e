-- What is acknowledged is on disk.
SET synchronous_commit TO on;
SET default_transaction_isolation TO 'read committed';
SET client_min_messages TO warning;
-- A server finds out by itself that a node is gone.
SET tcp_keepalives_idle TO 10;
SET tcp_keepalives_interval TO 5;
SET tcp_keepalives_count TO 3;
-- Every statement here is made to go by an index and is planned once. The planner would go by statistics, which are those of
-- an empty table when a store is young, and keep a plan that walks through all of it.
SET plan_cache_mode TO force_generic_plan;
SET enable_seqscan TO off;
SET enable_bitmapscan TO off;
SET enable_hashjoin TO off;
SET enable_mergejoin TO off;
SET enable_sort TO off;
SET jit TO off;
-- The quicker way to compress long values, where the server has it.
SELECT set_config(name, 'lz4', false)
FROM pg_settings
WHERE name = 'default_toast_compression' AND 'lz4' = ANY (enumvals);

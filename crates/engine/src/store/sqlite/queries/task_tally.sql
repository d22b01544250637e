-- Told by the heads of rows: no long value is read.
SELECT status, count(*), coalesce(sum(
    coalesce(octet_length(inputs), 0) + coalesce(octet_length(checkpoint), 0) +
    coalesce(octet_length(outcome), 0) + coalesce(octet_length(work), 0) +
    coalesce((SELECT octet_length(body) FROM blob WHERE key = checkpoint_blob), 0) +
    coalesce((SELECT octet_length(body) FROM blob WHERE key = outcome_blob), 0) +
    coalesce((SELECT octet_length(body) FROM blob WHERE key = work_blob), 0)), 0)
FROM task
WHERE owner = ?1
GROUP BY status

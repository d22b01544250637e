-- `octet_length` tells of a value that lies outside of its row without reading it.
SELECT status, count(*)::bigint, coalesce(sum(
    coalesce(octet_length(inputs), 0)::bigint + coalesce(octet_length(checkpoint), 0) +
    coalesce(octet_length(outcome), 0) + coalesce(octet_length(work), 0)), 0)::bigint
FROM task
GROUP BY status

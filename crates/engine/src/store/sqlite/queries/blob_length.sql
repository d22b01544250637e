-- Told by the head of the row: the body is not read.
SELECT octet_length(body) FROM blob WHERE key = ?1

INSERT INTO event (task, version, at, who, from_status, to_status, why)
SELECT *
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::smallint[], $5::smallint[], $6::smallint[], $7::text[])

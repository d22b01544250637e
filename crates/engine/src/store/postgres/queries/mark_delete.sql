-- Marks of sessions that have long been forgotten. One that goes on makes its mark anew.
DELETE FROM mark
WHERE at < now() - interval '1 day'

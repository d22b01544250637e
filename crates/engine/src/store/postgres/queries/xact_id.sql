-- Every transaction leaves its mark. Its number alone does not tell what became of it: a server that crashes gives the
-- numbers of transactions that had not reached the disk to later ones.
INSERT INTO mark (session, xact)
VALUES ($1, pg_current_xact_id()::text)
ON CONFLICT (session) DO UPDATE SET xact = excluded.xact, at = now()
RETURNING xact

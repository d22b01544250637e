-- Whether the transaction of this number, of this session, was committed. Only to be asked when the session has ended.
SELECT EXISTS (SELECT FROM mark WHERE session = $1 AND xact = $2)

UPDATE node SET lease_until = $2 WHERE id = $1 RETURNING id

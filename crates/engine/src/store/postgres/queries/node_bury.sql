DELETE FROM node WHERE id = $1 AND lease_until <= $2 RETURNING id

SELECT id, name, joined_at, lease_until
FROM node
ORDER BY joined_at, id

SELECT value FROM secret WHERE name = $1

SELECT name, value FROM secret ORDER BY name

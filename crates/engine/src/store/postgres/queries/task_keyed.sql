SELECT asked.number, task.locator, task.secret, task.key_digest
FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS asked (owner, key_tool, key, number)
JOIN task ON task.owner = asked.owner AND task.key_tool = asked.key_tool AND task.key = asked.key

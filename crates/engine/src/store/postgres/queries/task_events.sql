SELECT (SELECT secret FROM task WHERE locator = $1) AS secret, version, at, who, from_status, to_status, why
FROM event
WHERE task = $1
ORDER BY version

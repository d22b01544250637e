DELETE FROM task WHERE locator = ?1

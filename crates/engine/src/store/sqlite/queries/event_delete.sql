DELETE FROM event WHERE task = ?1

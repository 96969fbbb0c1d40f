ALTER TABLE tolerance DROP COLUMN set_by, DROP COLUMN reason, DROP COLUMN evidence;
DROP TABLE variance_decision;

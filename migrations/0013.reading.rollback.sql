DROP TABLE reading;
ALTER TABLE document DROP COLUMN evidence;

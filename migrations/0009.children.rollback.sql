ALTER TABLE document DROP COLUMN parent_id, DROP COLUMN first_page, DROP COLUMN last_page;

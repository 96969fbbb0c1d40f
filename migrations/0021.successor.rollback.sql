DROP INDEX document_replacement_by_successor;
ALTER TABLE document_replacement DROP COLUMN successor;

DROP INDEX document_by_receipt;
DROP TABLE operation;

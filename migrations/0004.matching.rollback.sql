DROP TABLE document_match;
DROP TABLE document_key;

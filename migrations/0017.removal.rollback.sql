DROP FUNCTION remove_documents;
DROP POLICY removal ON document;
DROP TABLE document_replacement, document_removal;

DROP FUNCTION promote_duplicate_file, delete_documents;
DROP TRIGGER index_words_on_update ON document;
DROP TRIGGER index_words_on_insert ON document;
DROP FUNCTION index_document_words, tokenize;
DROP TABLE document_replacement, document_deletion, document_duplicate_file, document_word, page_reading_cache, ingestion_job;
DROP POLICY removal ON document;
ALTER TABLE document
    DROP COLUMN evidence, DROP COLUMN last_page, DROP COLUMN first_page, DROP COLUMN parent_id;

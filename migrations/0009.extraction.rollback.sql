DROP FUNCTION hand_over_parts, remove_documents;
DROP TRIGGER words_when_it_says_otherwise ON document;
DROP TRIGGER words_when_it_comes ON document;
DROP FUNCTION write_document_words, words_of;
DROP TABLE document_replacement, document_removal, document_copy, document_word, reading, ingestion_job;
DROP POLICY removal ON document;
ALTER TABLE document
    DROP COLUMN evidence, DROP COLUMN last_page, DROP COLUMN first_page, DROP COLUMN parent_id;

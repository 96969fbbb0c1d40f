DROP TRIGGER words_when_it_comes ON document;
DROP TRIGGER words_when_it_says_otherwise ON document;
DROP FUNCTION write_document_words();
DROP FUNCTION words_of(text);
DROP TABLE document_word;

DROP FUNCTION hand_over_parts;
DROP TABLE document_copy;

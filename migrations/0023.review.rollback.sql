DROP TABLE document_review;
DROP TABLE match_decision;

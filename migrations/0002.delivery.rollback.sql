DROP TABLE notification;
DROP TABLE dead_letter_audit;
DROP TABLE dead_letter;
DROP TABLE outbox;
DROP SEQUENCE claim_token;

DROP FUNCTION unassigned_attempts;
DROP TABLE mapping_pause, breaker, work_attempt, outbox;
DROP SEQUENCE claim_token;

DROP FUNCTION unassigned_attempts;
DROP TABLE breaker_mapping_pause, breaker, work_attempt, outbox;
DROP SEQUENCE claim_token;

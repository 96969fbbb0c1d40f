DROP TRIGGER tell ON ingestion_job;
DROP TRIGGER tell ON document;
DROP FUNCTION tell_ingestion, tell_matching, tell_document;
DROP POLICY telling ON outbox;
DROP POLICY telling ON dead_letter;
DROP POLICY telling ON dead_letter_audit;

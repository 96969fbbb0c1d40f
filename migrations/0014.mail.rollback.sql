-- What came by mail has no place in the older form: its jobs go, with the sources and documents that they led to.
ALTER TABLE acquisition_job NO FORCE ROW LEVEL SECURITY;
DELETE FROM acquisition_job WHERE key LIKE 'inbox/%';
ALTER TABLE acquisition_job FORCE ROW LEVEL SECURITY;
ALTER TABLE source NO FORCE ROW LEVEL SECURITY;
UPDATE source SET kind = 'upload' WHERE kind = 'mail';
ALTER TABLE source FORCE ROW LEVEL SECURITY;
REVOKE UPDATE (parts, refusal) ON source FROM counterfoil_worker;
DROP INDEX source_by_message;
DROP INDEX document_by_source;
ALTER TABLE source
    DROP COLUMN sender, DROP COLUMN subject, DROP COLUMN message_id, DROP COLUMN parts, DROP COLUMN refusal,
    DROP CONSTRAINT source_kind_check,
    ADD CONSTRAINT source_kind_check CHECK (kind IN ('upload'));
REVOKE SELECT (version, size, sequencer) ON acquisition_job FROM counterfoil_delivery;
ALTER TABLE acquisition_job
    DROP CONSTRAINT acquisition_job_object,
    ADD CONSTRAINT acquisition_job_bucket_key_sequencer_key UNIQUE (bucket, key, sequencer);
DROP TABLE tenant_address;

DROP TABLE upload_listing;
ALTER TABLE acquisition_job NO FORCE ROW LEVEL SECURITY;
UPDATE acquisition_job SET sequencer = '' WHERE sequencer IS NULL;
ALTER TABLE acquisition_job FORCE ROW LEVEL SECURITY;
DROP INDEX acquisition_job_object;
ALTER TABLE acquisition_job
    ALTER COLUMN sequencer SET NOT NULL,
    ADD CONSTRAINT acquisition_job_object UNIQUE NULLS NOT DISTINCT (bucket, key, sequencer, tenant_id);

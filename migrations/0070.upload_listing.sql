-- depends: 0065.task_idempotency_key
-- Uploads whose S3 event was lost are found by listing the bucket. A listing knows versions, but no sequencers.

ALTER TABLE acquisition_job
    DROP CONSTRAINT acquisition_job_object,
    ALTER COLUMN sequencer DROP NOT NULL;  -- NULL: the event was lost
CREATE UNIQUE INDEX acquisition_job_object ON acquisition_job (bucket, key, coalesce(version, sequencer), tenant_id)
    NULLS NOT DISTINCT;

-- Progress of the listing of a prefix. It continues behind the markers, and begins again when it is complete.
CREATE TABLE upload_listing (
    bucket         text NOT NULL,
    prefix         text NOT NULL,
    key_marker     text,  -- NULL: at the beginning
    version_marker text,
    begun_at       timestamptz NOT NULL,
    is_complete    boolean NOT NULL,
    complete_since timestamptz,  -- when the last complete listing began
    PRIMARY KEY (bucket, prefix)
);
GRANT SELECT, INSERT, UPDATE ON upload_listing TO counterfoil_delivery;

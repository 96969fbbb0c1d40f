-- depends: 0096.failed_files
-- An upload counts as without an event when its event can no longer arrive. A late event adds its sequencer to the job.

GRANT UPDATE (sequencer) ON acquisition_job TO counterfoil_delivery;
CREATE INDEX acquisition_job_without_event ON acquisition_job (created_at) WHERE sequencer IS NULL;

-- Jobs of a bucket that were created until then, and have no event, are counted.
CREATE TABLE upload_event_check (
    bucket        text PRIMARY KEY,
    counted_until timestamptz NOT NULL
);
GRANT SELECT, INSERT, UPDATE ON upload_event_check TO counterfoil_delivery;

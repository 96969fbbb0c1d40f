DROP TABLE upload_event_check;
DROP INDEX acquisition_job_without_event;
REVOKE UPDATE (sequencer) ON acquisition_job FROM counterfoil_delivery;

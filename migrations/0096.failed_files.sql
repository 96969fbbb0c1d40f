-- depends: 0095.audit_by_owner
-- The document list includes files that failed before they became a document.

CREATE INDEX acquisition_job_failed ON acquisition_job (tenant_id, created_at DESC, id DESC) WHERE status = 'failed';
CREATE INDEX dead_letter_of_file ON dead_letter (work_id) WHERE worker = 'acquisition' AND purged_at IS NULL;

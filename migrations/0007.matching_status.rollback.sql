ALTER TABLE document
    DROP COLUMN matching_failed_at, DROP COLUMN matching_attempts, DROP COLUMN matching_error,
    DROP COLUMN matching_status;

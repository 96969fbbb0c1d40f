-- An export of dead letters is an operation. Its file is in S3, and a lifecycle rule of the bucket deletes it.
DROP TABLE dead_letter_export;

ALTER TABLE operation
    ADD COLUMN file jsonb,  -- of an export: format, size and parts of the upload, and the callers who got a link
    DROP CONSTRAINT operation_action_check,
    DROP CONSTRAINT operation_check6,
    ADD CONSTRAINT operation_action_check
        CHECK (action IN ('retry', 'resolve', 'ignore', 'purge', 'restore', 'export', 'extract', 'match')),
    ADD CONSTRAINT operation_check6 CHECK (rate IS NOT NULL OR action IN ('purge', 'restore', 'export')),
    ADD CONSTRAINT operation_file_check CHECK ((file IS NOT NULL) = (action = 'export'));
GRANT UPDATE (file) ON operation TO counterfoil_worker;

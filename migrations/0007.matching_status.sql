-- Status of matching, in the four columns and the index that other systems read.

ALTER TABLE document
    ADD COLUMN matching_status    text CHECK (matching_status IN ('pending', 'in-progress', 'succeeded', 'failed')),
    ADD COLUMN matching_error     text,
    ADD COLUMN matching_attempts  integer NOT NULL DEFAULT 0,
    ADD COLUMN matching_failed_at timestamptz;
CREATE INDEX idx_document_matching_status ON document (matching_status) WHERE matching_status IS NOT NULL;

GRANT UPDATE (matching_status, matching_error, matching_attempts, matching_failed_at) ON document TO counterfoil_worker;
GRANT SELECT (matching_status, matching_error, matching_attempts, matching_failed_at),
      UPDATE (matching_status, matching_error, matching_attempts, matching_failed_at)
    ON document TO counterfoil_delivery;

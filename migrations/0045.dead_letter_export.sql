-- depends: 0044.bulk_operation
-- Exports of dead letters that are too large for one answer: written to S3 in steps, kept for a week.

CREATE TABLE dead_letter_export (
    id           uuid PRIMARY KEY DEFAULT uuidv7(),
    tenant_id    uuid NOT NULL REFERENCES tenant (id) ON DELETE CASCADE,
    format       text NOT NULL CHECK (format IN ('csv', 'json')),
    selection    jsonb NOT NULL,  -- which letters, fixed when it was asked for
    filter_hash  bytea NOT NULL CHECK (octet_length(filter_hash) = 32),  -- of what was asked for, for the audit trail
    hides        boolean NOT NULL,  -- whether secrets are left out, as for who asked
    requested_by text NOT NULL,
    requested_at timestamptz NOT NULL,
    expires_at   timestamptz NOT NULL,
    state        text NOT NULL DEFAULT 'writing' CHECK (state IN ('writing', 'ready', 'failed')),
    letters      bigint NOT NULL DEFAULT 0,
    bytes        bigint NOT NULL DEFAULT 0,
    upload_id    text,  -- of S3's multipart upload
    parts        text[] NOT NULL DEFAULT '{}',  -- what S3 answered to each part, its ETag
    after_at     timestamptz,  -- where the last part ended: the letter's dlq_timestamp and job_id
    after_id     uuid,
    is_read      boolean NOT NULL DEFAULT false,  -- whether no letter is left behind that
    leased_until timestamptz,  -- whoever writes a part has until then
    taken_by     text[] NOT NULL DEFAULT '{}',  -- who was given the file
    CHECK ((after_at IS NULL) = (after_id IS NULL))
);
CREATE INDEX dead_letter_export_to_write ON dead_letter_export (leased_until NULLS FIRST) WHERE state = 'writing';
CREATE INDEX dead_letter_export_by_tenant ON dead_letter_export (tenant_id) WHERE state = 'writing';
CREATE INDEX dead_letter_export_past_keeping ON dead_letter_export (expires_at);

ALTER TABLE dead_letter_export ENABLE ROW LEVEL SECURITY;
ALTER TABLE dead_letter_export FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON dead_letter_export TO counterfoil_worker
    USING (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)
    WITH CHECK (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid);
CREATE POLICY delivery ON dead_letter_export TO counterfoil_delivery USING (true) WITH CHECK (true);
GRANT SELECT, INSERT, UPDATE (taken_by) ON dead_letter_export TO counterfoil_worker;
GRANT SELECT, UPDATE (state, letters, bytes, upload_id, parts, after_at, after_id, is_read, leased_until)
    ON dead_letter_export TO counterfoil_delivery;

-- The watchdog forgets an export with its file, and no sooner.
CREATE POLICY past_keeping ON dead_letter_export AS RESTRICTIVE FOR DELETE TO counterfoil_keeper
    USING (expires_at < now());
GRANT DELETE ON dead_letter_export TO counterfoil_keeper;

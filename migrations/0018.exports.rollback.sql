ALTER TABLE operation NO FORCE ROW LEVEL SECURITY;
DELETE FROM operation WHERE action = 'export';
ALTER TABLE operation FORCE ROW LEVEL SECURITY;
ALTER TABLE operation
    DROP CONSTRAINT operation_action_check,
    DROP CONSTRAINT operation_check6,
    DROP COLUMN file,
    ADD CONSTRAINT operation_action_check
        CHECK (action IN ('retry', 'resolve', 'ignore', 'purge', 'restore', 'extract', 'match')),
    ADD CONSTRAINT operation_check6 CHECK (rate IS NOT NULL OR action IN ('purge', 'restore'));

CREATE TABLE dead_letter_export (
    id           uuid PRIMARY KEY DEFAULT uuidv7(),
    tenant_id    uuid NOT NULL REFERENCES tenant (id) ON DELETE CASCADE,
    format       text NOT NULL CHECK (format IN ('csv', 'json')),
    selection    jsonb NOT NULL,
    filter_hash  bytea NOT NULL CHECK (octet_length(filter_hash) = 32),
    hides        boolean NOT NULL,
    requested_by text NOT NULL,
    requested_at timestamptz NOT NULL,
    expires_at   timestamptz NOT NULL,
    state        text NOT NULL DEFAULT 'writing' CHECK (state IN ('writing', 'ready', 'failed')),
    letters      bigint NOT NULL DEFAULT 0,
    bytes        bigint NOT NULL DEFAULT 0,
    upload_id    text,
    parts        text[] NOT NULL DEFAULT '{}',
    after_at     timestamptz,
    after_id     uuid,
    is_read      boolean NOT NULL DEFAULT false,
    leased_until timestamptz,
    taken_by     text[] NOT NULL DEFAULT '{}',
    CHECK ((after_at IS NULL) = (after_id IS NULL))
);
CREATE INDEX dead_letter_export_to_write ON dead_letter_export (leased_until NULLS FIRST) WHERE state = 'writing';
CREATE INDEX dead_letter_export_by_tenant ON dead_letter_export (tenant_id);
CREATE INDEX dead_letter_export_past_keeping ON dead_letter_export (expires_at);
ALTER TABLE dead_letter_export ENABLE ROW LEVEL SECURITY;
ALTER TABLE dead_letter_export FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON dead_letter_export TO counterfoil_worker
    USING (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)
    WITH CHECK (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid);
CREATE POLICY erasing ON dead_letter_export TO counterfoil_owner
    USING (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)
    WITH CHECK (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid);
CREATE POLICY delivery ON dead_letter_export TO counterfoil_delivery USING (true) WITH CHECK (true);
CREATE POLICY past_keeping ON dead_letter_export AS RESTRICTIVE FOR DELETE TO counterfoil_keeper
    USING (expires_at < now());
GRANT SELECT, INSERT, UPDATE (taken_by) ON dead_letter_export TO counterfoil_worker;
GRANT SELECT, UPDATE (state, letters, bytes, upload_id, parts, after_at, after_id, is_read, leased_until)
    ON dead_letter_export TO counterfoil_delivery;
GRANT DELETE ON dead_letter_export TO counterfoil_keeper;

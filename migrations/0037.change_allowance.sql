-- depends: 0036.payload_removal
-- How much each tenant may have changed just now, and each of its users of that: buckets of tokens, which fill with time.
-- A row for everybody who ever changed something; what it holds is full again within seconds, so nothing is carried over.
-- The code before this migration counts in task_allowance until the deployment ends: that table goes in a later release.

CREATE TABLE change_allowance (
    tenant_id  uuid NOT NULL REFERENCES tenant (id) ON DELETE CASCADE,
    user_hash  bytea CHECK (octet_length(user_hash) = 32),     -- SHA-256 of who asks; NULL: the whole tenant
    tokens     double precision NOT NULL CHECK (tokens >= 0),  -- at that time, one of them for each request
    counted_at timestamptz NOT NULL,
    UNIQUE NULLS NOT DISTINCT (tenant_id, user_hash)
);

ALTER TABLE change_allowance ENABLE ROW LEVEL SECURITY;
ALTER TABLE change_allowance FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON change_allowance TO counterfoil_worker
    USING (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)
    WITH CHECK (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid);
GRANT SELECT, INSERT, UPDATE (tokens, counted_at) ON change_allowance TO counterfoil_worker;

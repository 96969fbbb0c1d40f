DROP TABLE change_allowance;

CREATE TABLE task_allowance (
    tenant_id  uuid PRIMARY KEY REFERENCES tenant (id) ON DELETE CASCADE,
    tokens     double precision NOT NULL CHECK (tokens >= 0),  -- at that time, one of them for each task
    counted_at timestamptz NOT NULL
);

ALTER TABLE task_allowance ENABLE ROW LEVEL SECURITY;
ALTER TABLE task_allowance FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON task_allowance TO counterfoil_worker
    USING (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)
    WITH CHECK (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid);
GRANT SELECT, INSERT, UPDATE (tokens, counted_at) ON task_allowance TO counterfoil_worker;

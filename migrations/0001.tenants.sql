-- Organizations and their tenants. Every other table belongs to a tenant, and row-level security keeps tenants apart.
-- A transaction names its tenant with set_config('counterfoil.tenant', id, true); without one it sees nothing.

CREATE TABLE organization (
    id         uuid PRIMARY KEY DEFAULT uuidv7(),
    name       text NOT NULL UNIQUE,
    created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE tenant (
    id              uuid PRIMARY KEY DEFAULT uuidv7(),
    organization_id uuid NOT NULL REFERENCES organization (id),
    slug            text NOT NULL UNIQUE CHECK (slug ~ '^[a-z0-9][a-z0-9-]{0,62}$'),
    name            text NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT now()
);

ALTER TABLE tenant ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenant FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON tenant FOR SELECT TO counterfoil_worker
    USING (id = nullif(current_setting('counterfoil.tenant', true), '')::uuid);
CREATE POLICY delivery ON tenant FOR SELECT TO counterfoil_delivery USING (true);
CREATE POLICY onboarding ON tenant FOR ALL TO counterfoil_owner USING (true) WITH CHECK (true);

GRANT SELECT ON tenant TO counterfoil_worker;
GRANT SELECT (id, slug) ON tenant TO counterfoil_delivery;

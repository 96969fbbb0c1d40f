-- Organizations and their tenants, with admins, mail addresses and rate limits. Every other table belongs to a tenant,
-- and row-level security separates tenants. A transaction sets its tenant with set_config('counterfoil.tenant', id,
-- true). Without a tenant, it sees no rows.

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
    created_at      timestamptz NOT NULL DEFAULT now(),
    -- Key for the hashes in the audit trail, because hashes of short texts could be guessed. Deleted with the tenant.
    audit_salt      bytea NOT NULL DEFAULT uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()),
    -- Policy for mail that fails DMARC.
    dmarc_policy    text NOT NULL DEFAULT 'hold' CHECK (dmarc_policy IN ('hold', 'reject', 'accept'))
);

-- Recipients of email about a tenant's failures. Recipients for all tenants are in the settings.
CREATE TABLE tenant_admin (
    tenant_id  uuid NOT NULL REFERENCES tenant (id) ON DELETE CASCADE,
    email      text NOT NULL CHECK (length(email) <= 254 AND email ~ '^[!-~]+@[!-~]+$'),
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, email)
);

-- Addresses that receive a tenant's mail. The delivery role uses them to find the tenants that an email is addressed
-- to.
CREATE TABLE tenant_address (
    address    text PRIMARY KEY
               CHECK (address = lower(address) AND length(address) <= 254 AND address ~ '^[!-~]+@[!-~]+$'),
    tenant_id  uuid NOT NULL REFERENCES tenant (id) ON DELETE CASCADE,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX tenant_address_by_tenant ON tenant_address (tenant_id);

-- Token buckets for the API's rate limits, for each tenant and each of its users. Reads and changes have separate
-- buckets, so a program that polls cannot use up its tenant's tokens for changes.
CREATE TABLE rate_limit_bucket (
    tenant_id   uuid REFERENCES tenant (id) ON DELETE CASCADE,  -- NULL: for changes that affect all tenants
    user_hash   bytea CHECK (octet_length(user_hash) = 32),     -- SHA-256 of the caller; NULL: the whole tenant
    tokens      double precision NOT NULL CHECK (tokens >= 0),  -- at refilled_at; a read takes one per 100 ms
    refilled_at timestamptz NOT NULL,
    purpose     text NOT NULL DEFAULT 'change' CHECK (purpose IN ('change', 'read')),
    UNIQUE NULLS NOT DISTINCT (tenant_id, user_hash, purpose)
);

ALTER TABLE tenant ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenant FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON tenant FOR SELECT TO counterfoil_worker
    USING (id = nullif(current_setting('counterfoil.tenant', true), '')::uuid);
-- Admins of a tenant set its DMARC policy through the API, which connects as a worker.
CREATE POLICY own_tenant_settings ON tenant FOR UPDATE TO counterfoil_worker
    USING (id = nullif(current_setting('counterfoil.tenant', true), '')::uuid);
CREATE POLICY delivery ON tenant FOR SELECT TO counterfoil_delivery USING (true);

DO $security$
DECLARE
    table_name text;
BEGIN
    FOREACH table_name IN ARRAY ARRAY['tenant_admin', 'tenant_address'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', table_name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', table_name);
        EXECUTE format($policy$CREATE POLICY own_tenant ON %I FOR SELECT TO counterfoil_worker
            USING (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)$policy$, table_name);
    END LOOP;
    -- The owner sets up tenants.
    FOREACH table_name IN ARRAY ARRAY['tenant', 'tenant_admin', 'tenant_address'] LOOP
        EXECUTE format('CREATE POLICY onboarding ON %I TO counterfoil_owner USING (true) WITH CHECK (true)',
                       table_name);
    END LOOP;
END
$security$;
CREATE POLICY maintenance ON tenant_admin TO counterfoil_maintenance USING (true) WITH CHECK (true);
CREATE POLICY delivery ON tenant_address FOR SELECT TO counterfoil_delivery USING (true);
ALTER TABLE rate_limit_bucket ENABLE ROW LEVEL SECURITY;
ALTER TABLE rate_limit_bucket FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON rate_limit_bucket TO counterfoil_worker
    USING (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)
    WITH CHECK (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid);
CREATE POLICY cross_tenant ON rate_limit_bucket TO counterfoil_delivery
    USING (tenant_id IS NULL) WITH CHECK (tenant_id IS NULL);

GRANT SELECT, UPDATE (dmarc_policy) ON tenant TO counterfoil_worker;
GRANT SELECT (id, slug) ON tenant TO counterfoil_delivery;
GRANT SELECT (name) ON tenant TO counterfoil_maintenance;
GRANT SELECT ON tenant_admin TO counterfoil_worker, counterfoil_maintenance;
GRANT SELECT ON tenant_address TO counterfoil_worker;
GRANT SELECT (address, tenant_id) ON tenant_address TO counterfoil_delivery;
GRANT SELECT, INSERT, UPDATE (tokens, refilled_at) ON rate_limit_bucket TO counterfoil_worker, counterfoil_delivery;

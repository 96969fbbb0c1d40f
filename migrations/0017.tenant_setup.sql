-- Setup of tenants through the API. It connects as counterfoil_api: a worker that may also set up tenants. No other
-- worker may, because workers read documents that strangers send.

ALTER TABLE tenant ADD COLUMN disabled_at timestamptz;  -- since then it takes no new work; NULL: it is enabled

-- A transaction without a tenant lists and adds tenants.
CREATE POLICY setup_list ON tenant FOR SELECT TO counterfoil_api
    USING (nullif(current_setting('counterfoil.tenant', true), '') IS NULL);
CREATE POLICY setup_add ON tenant FOR INSERT TO counterfoil_api
    WITH CHECK (nullif(current_setting('counterfoil.tenant', true), '') IS NULL);
GRANT INSERT (organization_id, slug, name), UPDATE (name, disabled_at) ON tenant TO counterfoil_api;
GRANT SELECT (id, name), INSERT (name) ON organization TO counterfoil_api;
GRANT EXECUTE ON FUNCTION find_tenant_erasure TO counterfoil_api;
-- Uploads and mail of a disabled tenant are not accepted.
GRANT SELECT (disabled_at) ON tenant TO counterfoil_delivery;

DO $security$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['tenant_admin', 'tenant_address'] LOOP
        EXECUTE format($policy$CREATE POLICY setup ON %I TO counterfoil_api
            USING (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)
            WITH CHECK (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)$policy$, name);
    END LOOP;
END
$security$;
GRANT INSERT (tenant_id, email), DELETE ON tenant_admin TO counterfoil_api;
GRANT INSERT (tenant_id, address), DELETE ON tenant_address TO counterfoil_api;

-- Tenants' own admins add destinations, too. Only those of platform admins may call addresses on the allowlist.
ALTER TABLE destination ADD COLUMN allows_internal boolean NOT NULL DEFAULT false;

-- The policies of workers apply to the rows of these tables.
GRANT INSERT, UPDATE (disabled_at) ON destination TO counterfoil_api;
GRANT INSERT, UPDATE (expires_at), DELETE ON destination_secret TO counterfoil_api;
GRANT INSERT, DELETE ON tolerance TO counterfoil_api;

-- Setup of tenants through the API. The API connects as counterfoil_api, a worker role that may also set up tenants.
-- Other workers must not, because they process files from outside senders.

ALTER TABLE tenant ADD COLUMN disabled_at timestamptz;  -- when the tenant was disabled; NULL: enabled

-- Only a transaction without a tenant may list and add tenants.
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
    table_name text;
BEGIN
    FOREACH table_name IN ARRAY ARRAY['tenant_admin', 'tenant_address'] LOOP
        EXECUTE format($policy$CREATE POLICY setup ON %I TO counterfoil_api
            USING (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)
            WITH CHECK (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)$policy$, table_name);
    END LOOP;
END
$security$;
GRANT INSERT (tenant_id, email), DELETE ON tenant_admin TO counterfoil_api;
GRANT INSERT (tenant_id, address), DELETE ON tenant_address TO counterfoil_api;

-- A tenant's admins can also add destinations. Only destinations added by an admin of all tenants may call allowlisted
-- internal addresses.
ALTER TABLE destination ADD COLUMN allows_internal boolean NOT NULL DEFAULT false;

-- counterfoil_api is a worker, so the workers' row-level security policies apply to these tables.
GRANT INSERT, UPDATE (disabled_at) ON destination TO counterfoil_api;
GRANT INSERT, UPDATE (expires_at), DELETE ON destination_secret TO counterfoil_api;
GRANT INSERT, DELETE ON tolerance TO counterfoil_api;

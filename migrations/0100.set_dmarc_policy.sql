-- depends: 0098.upload_inventory
-- Admins of a tenant set its policy for mail that fails DMARC through the API, which is a worker here.

CREATE POLICY own_tenant_settings ON tenant FOR UPDATE TO counterfoil_worker
    USING (id = NULLIF(current_setting('counterfoil.tenant', true), '')::uuid);
GRANT UPDATE (dmarc_policy) ON tenant TO counterfoil_worker;

REVOKE UPDATE (dmarc_policy) ON tenant FROM counterfoil_worker;
DROP POLICY own_tenant_settings ON tenant;

DROP TABLE change_allowance, tenant_address, tenant_admin, tenant, organization;

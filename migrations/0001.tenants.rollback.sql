DROP TABLE change_allowance, task_allowance, tenant_address, tenant_admin, tenant, organization;

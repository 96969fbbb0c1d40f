DROP TABLE rate_limit_bucket, tenant_address, tenant_admin, tenant, organization;

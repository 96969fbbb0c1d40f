-- depends: 0009.children
-- A file may come before its tenant is told of. When its job is sent again, delivery gives it the tenant of its key.
GRANT UPDATE (tenant_id) ON acquisition_job TO counterfoil_delivery;

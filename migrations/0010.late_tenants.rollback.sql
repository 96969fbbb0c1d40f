REVOKE UPDATE (tenant_id) ON acquisition_job FROM counterfoil_delivery;

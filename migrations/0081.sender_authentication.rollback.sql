REVOKE SELECT (id, tenant_id) ON source FROM counterfoil_delivery;
DROP POLICY delivery ON source;
ALTER TABLE source DROP COLUMN hold, DROP COLUMN dmarc, DROP COLUMN dkim, DROP COLUMN spf;
ALTER TABLE tenant DROP COLUMN dmarc_policy;

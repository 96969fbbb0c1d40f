REVOKE SELECT (name) ON tenant FROM counterfoil_keeper;
ALTER TABLE notification DROP COLUMN notice_id, ADD COLUMN sent_at timestamptz;
CREATE INDEX notification_unsent ON notification (created_at) WHERE sent_at IS NULL;
REVOKE UPDATE ON notification FROM counterfoil_keeper;
DROP TABLE notice_delivery;
DROP TABLE notice;
DROP TABLE tenant_admin;

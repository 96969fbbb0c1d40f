ALTER TABLE tenant DROP COLUMN audit_salt;

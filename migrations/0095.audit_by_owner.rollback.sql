DROP POLICY recording ON audit_entry;

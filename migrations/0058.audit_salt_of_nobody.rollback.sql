DROP TABLE audit_salt_of_nobody;

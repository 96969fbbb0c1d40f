DROP TABLE audit_salt_of_nobody, audit_head, audit_entry;
DROP FUNCTION refuse_audit_change, follow_audit;

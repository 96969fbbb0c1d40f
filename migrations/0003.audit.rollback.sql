DROP TABLE person, audit_salt_global, audit_head, audit_entry;
DROP FUNCTION reject_audit_change, append_audit_head;

ALTER TABLE outbox DROP body;
ALTER TABLE dead_letter DROP edited_payload, DROP edit;
DROP TABLE audit_entry;
DROP TABLE audit_head;
DROP FUNCTION follow_audit();
DROP FUNCTION refuse_audit_change();

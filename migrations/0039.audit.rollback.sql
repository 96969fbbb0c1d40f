ALTER TABLE outbox DROP body;
DROP TRIGGER raise_version ON dead_letter;
DROP FUNCTION raise_version();
ALTER TABLE dead_letter DROP edited_payload, DROP edit;
DROP TABLE audit_entry;
DROP TABLE audit_head;
DROP FUNCTION follow_audit();
DROP FUNCTION refuse_audit_change();

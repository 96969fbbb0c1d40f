DROP FUNCTION end_object_erasure, begin_object_erasure, erase_dead_letters, erase_documents, needed_versions,
    erase_judgements, erase_tenant, erase_tenant_rows, tenant_tables, erase_late_uploads, begin_tenant_erasure, find_tenant_erasure, hash_of_slug;
DROP TRIGGER refuse_deletion ON audit_entry;
DROP TRIGGER refuse_deletion ON audit_head;
CREATE OR REPLACE FUNCTION refuse_audit_change() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp
AS $body$
BEGIN
    RAISE EXCEPTION 'the audit trail is only added to' USING ERRCODE = 'insufficient_privilege';
END
$body$;
REVOKE SELECT (document_id, tenant_id) ON document_removal FROM counterfoil_delivery;
DROP POLICY delivery ON document_removal;
DROP POLICY erasing_shared ON acquisition_job;
DROP POLICY erasing_unassigned ON acquisition_job;
DO $security$
DECLARE
    name text;
BEGIN
    FOR name IN SELECT tablename FROM pg_policies WHERE policyname = 'erasing' LOOP
        EXECUTE format('DROP POLICY erasing ON %I', name);
    END LOOP;
END
$security$;
DROP INDEX source_by_part, source_by_content, document_by_key, document_removal_by_key, document_copy_by_key;
ALTER TABLE source DROP content_hash;
DROP TABLE object_erasure, tenant_erasure;

DROP FUNCTION end_object_erasure, begin_object_erasure, erase_dead_letters, erase_documents, needed_versions,
              erase_llm_judgments, erase_tenant, erase_tenant_rows, tenant_tables, erase_late_uploads,
                  begin_tenant_erasure,
              find_tenant_erasure, hash_of_slug;
DROP POLICY erasing_unassigned ON acquisition_job;
DROP POLICY erasing_shared ON acquisition_job;
DO $security$
DECLARE
    name text;
BEGIN
    FOR name IN SELECT tablename FROM pg_policies WHERE policyname = 'erasing' LOOP
        EXECUTE format('DROP POLICY erasing ON %I', name);
    END LOOP;
END
$security$;
DROP TABLE object_erasure, tenant_erasure;

DROP FUNCTION end_object_erasure, begin_object_erasure, erase_dead_letters, erase_documents, needed_versions,
              erase_llm_judgments, erase_tenant, erase_tenant_rows, tenant_tables, erase_late_uploads,
                  begin_tenant_erasure,
              find_tenant_erasure, hash_of_slug;
DROP POLICY erasure_unassigned ON acquisition_job;
DROP POLICY erasure_shared ON acquisition_job;
DO $security$
DECLARE
    table_name text;
BEGIN
    FOR table_name IN SELECT tablename FROM pg_policies WHERE policyname = 'erasure' LOOP
        EXECUTE format('DROP POLICY erasure ON %I', table_name);
    END LOOP;
END
$security$;
DROP TABLE object_erasure, tenant_erasure;

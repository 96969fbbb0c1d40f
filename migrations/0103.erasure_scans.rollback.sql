DROP FUNCTION erase_tenant_rows;
ALTER TABLE tenant_erasure DROP next_table, DROP next_page;
DROP INDEX outbox_by_tenant, work_attempt_by_tenant, dead_letter_by_tenant, dead_letter_count_by_tenant,
    dead_letter_export_by_tenant, notice_by_tenant, notice_delivery_by_tenant, notification_by_tenant,
    offer_shard_by_tenant, profile_block_by_tenant;
CREATE INDEX dead_letter_export_by_tenant ON dead_letter_export (tenant_id) WHERE state = 'writing';
-- Deletes up to `at_most` rows of a table of a tenant being erased. Returns their number; 0 when none is left, NULL when
-- other transactions lock the rest.
CREATE FUNCTION erase_tenant_rows(erased uuid, of_table name, at_most integer) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp
AS $body$
DECLARE
    callers_tenant text := current_setting('counterfoil.tenant', true);
    deleted bigint;
    is_empty boolean;
BEGIN
    PERFORM FROM tenant_erasure WHERE id = erased FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    IF of_table NOT IN (SELECT tenant_tables()) THEN
        RAISE EXCEPTION 'table % has no rows of tenants', of_table;
    END IF;
    IF NOT EXISTS (SELECT FROM pg_policies WHERE tablename = of_table AND policyname = 'erasing') THEN
        RAISE EXCEPTION 'table % has no policy "erasing"', of_table;
    END IF;
    PERFORM set_config('counterfoil.tenant', erased::text, true);
    IF of_table = 'destination' THEN
        DELETE FROM breaker b USING destination d WHERE d.tenant_id = erased AND b.name = 'destination:' || d.id;
    END IF;
    IF of_table = 'acquisition_job' THEN
        WITH gone AS (
            DELETE FROM acquisition_job WHERE ctid = ANY(ARRAY(
                SELECT ctid FROM acquisition_job WHERE tenant_id = erased LIMIT at_most FOR UPDATE SKIP LOCKED
            )) RETURNING bucket, key
        ), mails AS (
            SELECT DISTINCT bucket, key FROM gone WHERE starts_with(key, 'inbox/') AND NOT EXISTS (
                SELECT FROM acquisition_job other WHERE (other.bucket, other.key) = (gone.bucket, gone.key)
                  AND other.tenant_id <> erased AND other.reason IS DISTINCT FROM 'The file was erased.'
            )
        ), owed AS (
            INSERT INTO object_erasure (bucket, key, modified_before) SELECT bucket, key, now() FROM mails
            ON CONFLICT DO NOTHING
        ), unassigned AS (
            UPDATE acquisition_job j SET status = NULL, error = NULL, reason = 'The file was erased.'
            FROM mails WHERE (j.bucket, j.key) = (mails.bucket, mails.key) AND j.tenant_id IS NULL
        )
        SELECT count(*) INTO deleted FROM gone;
    ELSE
        EXECUTE format(
            'WITH gone AS (DELETE FROM %1$I WHERE ctid = ANY(ARRAY(SELECT ctid FROM %1$I WHERE tenant_id = $1
             LIMIT $2 FOR UPDATE SKIP LOCKED)) RETURNING 1) SELECT count(*) FROM gone', of_table
        ) INTO deleted USING erased, at_most;
    END IF;
    IF deleted = 0 THEN
        EXECUTE format('SELECT NOT EXISTS (SELECT FROM %I WHERE tenant_id = $1)', of_table) INTO is_empty USING erased;
        IF NOT is_empty THEN
            deleted := NULL;
        END IF;
    ELSE
        UPDATE tenant_erasure SET row_count = row_count + deleted WHERE id = erased;
    END IF;
    PERFORM set_config('counterfoil.tenant', coalesce(callers_tenant, ''), true);
    RETURN deleted;
END
$body$;
REVOKE ALL ON FUNCTION erase_tenant_rows FROM PUBLIC;
GRANT EXECUTE ON FUNCTION erase_tenant_rows TO counterfoil_keeper;

-- depends: 0100.set_dmarc_policy
-- Erasure of tenants in bounded transactions, however large a table is.

-- Deleting a tenant looks for its rows in every table that references it, in one statement.
CREATE INDEX outbox_by_tenant ON outbox (tenant_id);
CREATE INDEX work_attempt_by_tenant ON work_attempt (tenant_id);
CREATE INDEX dead_letter_by_tenant ON dead_letter (tenant_id);
CREATE INDEX dead_letter_count_by_tenant ON dead_letter_count (tenant_id);
DROP INDEX dead_letter_export_by_tenant;
CREATE INDEX dead_letter_export_by_tenant ON dead_letter_export (tenant_id);
CREATE INDEX notice_by_tenant ON notice (tenant_id);
CREATE INDEX notice_delivery_by_tenant ON notice_delivery (tenant_id);
CREATE INDEX notification_by_tenant ON notification (tenant_id);
CREATE INDEX offer_shard_by_tenant ON offer_shard (tenant_id);
CREATE INDEX profile_block_by_tenant ON profile_block (tenant_id);

-- Where the erasure continues. The tables before it hold no more rows.
ALTER TABLE tenant_erasure
    ADD next_table name,
    ADD next_page bigint NOT NULL DEFAULT 0;  -- of a table without an index on tenant_id
GRANT UPDATE (next_table, next_page) ON tenant_erasure TO counterfoil_keeper;

DROP FUNCTION erase_tenant_rows;
-- Deletes up to `at_most` rows of a table of a tenant being erased. Of a table without an index on tenant_id, it reads
-- up to `at_most` pages. Returns whether the table is finished, NULL when other transactions lock rows.
CREATE FUNCTION erase_tenant_rows(erased uuid, of_table name, at_most integer) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp
AS $body$
DECLARE
    callers_tenant text := current_setting('counterfoil.tenant', true);
    page bigint;
    pages bigint;
    here text := 'tenant_id = $1';
    deleted bigint;
    is_locked boolean := false;
    is_finished boolean := true;
BEGIN
    SELECT CASE WHEN next_table = of_table THEN next_page ELSE 0 END INTO page
    FROM tenant_erasure WHERE id = erased FOR UPDATE;
    IF NOT FOUND THEN
        RETURN true;
    END IF;
    IF of_table NOT IN (SELECT tenant_tables()) THEN
        RAISE EXCEPTION 'table % has no rows of tenants', of_table;
    END IF;
    IF NOT EXISTS (SELECT FROM pg_policies WHERE tablename = of_table AND policyname = 'erasing') THEN
        RAISE EXCEPTION 'table % has no policy "erasing"', of_table;
    END IF;
    PERFORM set_config('counterfoil.tenant', erased::text, true);
    IF NOT EXISTS (
        SELECT FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
        WHERE i.indrelid = format('%I', of_table)::regclass AND a.attname = 'tenant_id'
          AND i.indpred IS NULL AND i.indisvalid
    ) THEN
        pages := pg_relation_size(format('%I', of_table)::regclass) / current_setting('block_size')::integer;
        here := here || format(' AND ctid >= ''(%s,0)'' AND ctid < ''(%s,0)''', page, page + at_most);
        is_finished := page + at_most >= pages;
    END IF;
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
            'WITH gone AS (DELETE FROM %1$I WHERE ctid = ANY(ARRAY(SELECT ctid FROM %1$I WHERE %2$s
             LIMIT $2 FOR UPDATE SKIP LOCKED)) RETURNING 1) SELECT count(*) FROM gone', of_table, here
        ) INTO deleted USING erased, at_most;
    END IF;
    IF deleted < at_most THEN
        EXECUTE format('SELECT EXISTS (SELECT FROM %I WHERE %s)', of_table, here) INTO is_locked USING erased;
        page := page + CASE WHEN is_locked THEN 0 ELSE at_most END;
    ELSE
        is_finished := false;
    END IF;
    UPDATE tenant_erasure SET row_count = row_count + deleted, next_table = of_table, next_page = page WHERE id = erased;
    PERFORM set_config('counterfoil.tenant', coalesce(callers_tenant, ''), true);
    RETURN CASE WHEN NOT is_locked THEN is_finished END;
END
$body$;
REVOKE ALL ON FUNCTION erase_tenant_rows FROM PUBLIC;
GRANT EXECUTE ON FUNCTION erase_tenant_rows TO counterfoil_keeper;

-- depends: 0059.kept_letters
-- Rows of a transition table are not known when a statement about them is planned, once for a connection: a join of the
-- new with the old ones goes in loops, and takes four times as long for twice the letters. So who only wants to know
-- whether anything of the kind has changed asks without a join.

CREATE OR REPLACE FUNCTION count_dead_letters() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path = public, pg_temp
    AS $$
BEGIN
    IF TG_OP <> 'DELETE' THEN
        INSERT INTO dead_letter_count (tenant_id, fingerprint, task_type, status, number, last_at)
        SELECT tenant_id, fingerprint, task_type, status, count(*), max(dlq_timestamp) FROM new_rows
        WHERE purged_at IS NULL GROUP BY 1, 2, 3, 4;
    END IF;
    IF TG_OP <> 'INSERT' THEN
        INSERT INTO dead_letter_count (tenant_id, fingerprint, task_type, status, number, last_at)
        SELECT tenant_id, fingerprint, task_type, status, -count(*), min(dlq_timestamp) FROM old_rows o
        WHERE purged_at IS NULL  -- what goes with its tenant has nowhere to be counted
          AND (TG_OP = 'UPDATE' OR tenant_id IS NULL OR EXISTS (SELECT FROM tenant t WHERE t.id = o.tenant_id))
        GROUP BY 1, 2, 3, 4;
    END IF;
    IF TG_OP = 'INSERT' THEN
        INSERT INTO dead_letter_count (tenant_id, fingerprint, task_type, hour, number, last_at)
        SELECT tenant_id, fingerprint, task_type, date_trunc('hour', dlq_timestamp, 'UTC'), count(*), max(dlq_timestamp)
        FROM new_rows GROUP BY 1, 2, 3, 4;
    ELSIF TG_OP = 'UPDATE' THEN
        IF EXISTS (SELECT job_id, dlq_timestamp FROM new_rows EXCEPT SELECT job_id, dlq_timestamp FROM old_rows) THEN
            INSERT INTO dead_letter_count (tenant_id, fingerprint, task_type, hour, number, last_at)
            SELECT n.tenant_id, n.fingerprint, n.task_type, date_trunc('hour', n.dlq_timestamp, 'UTC'), count(*),
                   max(n.dlq_timestamp)
            FROM new_rows n JOIN old_rows o USING (job_id) WHERE n.dlq_timestamp > o.dlq_timestamp GROUP BY 1, 2, 3, 4;
        END IF;
        -- A letter that was nobody's until its tenant was known takes with it what it is found by.
        IF EXISTS (SELECT job_id, tenant_id FROM new_rows EXCEPT SELECT job_id, tenant_id FROM old_rows) THEN
            INSERT INTO dead_letter_group (tenant_id, fingerprint, worker, error_type, sentence, words, first_seen)
            SELECT n.tenant_id, g.fingerprint, g.worker, g.error_type, g.sentence, g.words, n.dlq_timestamp
            FROM new_rows n JOIN old_rows o USING (job_id)
            JOIN dead_letter_group g ON g.tenant_id IS NOT DISTINCT FROM o.tenant_id AND g.fingerprint = n.fingerprint
            WHERE n.tenant_id IS DISTINCT FROM o.tenant_id
            ON CONFLICT (tenant_id, fingerprint) DO NOTHING;
            UPDATE dead_letter_word w SET tenant_id = n.tenant_id
            FROM new_rows n JOIN old_rows o USING (job_id)
            WHERE w.job_id = n.job_id AND n.tenant_id IS DISTINCT FROM o.tenant_id;
        END IF;
    END IF;
    RETURN NULL;
END
$$;

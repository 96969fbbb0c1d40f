-- The result of all migrations, dumped by PostgreSQL 18. Written by `python -m tools.schema`; do not edit.
-- Everything here belongs to counterfoil_owner.

CREATE EXTENSION IF NOT EXISTS vector WITH SCHEMA public;

COMMENT ON EXTENSION vector IS 'vector data type and ivfflat and hnsw access methods';

CREATE FUNCTION public.append_audit_head() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $$
BEGIN
    IF NEW.number = 1 THEN
        INSERT INTO audit_head (tenant_id, number, hash) VALUES (NEW.tenant_id, 1, NEW.hash);
        RETURN NULL;
    END IF;
    UPDATE audit_head SET number = NEW.number, hash = NEW.hash
    WHERE tenant_id IS NOT DISTINCT FROM NEW.tenant_id AND number = NEW.number - 1 AND hash = NEW.previous_hash;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the audit entry must follow the chain head' USING ERRCODE =
            'integrity_constraint_violation';
    END IF;
    RETURN NULL;
END
$$;

CREATE FUNCTION public.begin_object_erasure(erasure_id uuid, at timestamp with time zone, OUT before timestamp with time zone, OUT needed text[]) RETURNS SETOF record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $$
DECLARE
    previous_tenant text := current_setting('counterfoil.tenant', true);
    s3_resolution CONSTANT interval := '1 second';  -- of S3's modification times
    erasure object_erasure;
BEGIN
    SELECT * INTO STRICT erasure FROM object_erasure WHERE id = erasure_id;
    PERFORM set_config('counterfoil.tenant', coalesce(erasure.tenant::text, ''), true);
    before := erasure.modified_before;
    IF starts_with(erasure.key, 'attachments/') THEN
        before := least(before, at - s3_resolution);
        IF EXISTS (
            SELECT FROM acquisition_job j
            WHERE j.tenant_id = erasure.tenant AND j.status = 'in-progress' AND j.claimed_at <= before + s3_resolution
        ) THEN
            PERFORM set_config('counterfoil.tenant', coalesce(previous_tenant, ''), true);
            RETURN;
        END IF;
    END IF;
    needed := ARRAY(SELECT needed_versions(erasure.bucket, erasure.key, '{}'));  -- again: attempts may have committed
    PERFORM set_config('counterfoil.tenant', coalesce(previous_tenant, ''), true);
    RETURN NEXT;
END
$$;

CREATE FUNCTION public.begin_tenant_erasure(erased_slug text, at timestamp with time zone, OUT hash bytea, OUT chain_number bigint, OUT chain_hash bytea) RETURNS SETOF record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $$
DECLARE
    erased_tenant_id uuid;
BEGIN
    UPDATE tenant t SET slug = 'erased-' || t.id, name = '' WHERE t.slug = erased_slug
    RETURNING t.id INTO erased_tenant_id;
    IF erased_tenant_id IS NULL THEN
        RETURN;
    END IF;
    hash := hash_of_slug(erased_slug);
    INSERT INTO tenant_erasure (slug_hash, id, slug, requested_at, due_at)
    VALUES (hash, erased_tenant_id, erased_slug, at, at);
    DELETE FROM tenant_address WHERE tenant_id = erased_tenant_id;
    SELECT h.number, h.hash INTO chain_number, chain_hash FROM audit_head h WHERE h.tenant_id = erased_tenant_id;
    RETURN NEXT;
END
$$;

CREATE FUNCTION public.clear_expired_pools(max_rows integer) RETURNS bigint
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $$
    WITH cleared AS (
        UPDATE offer_shard SET profiles = NULL, excluded = NULL WHERE id = ANY(ARRAY(
            SELECT id FROM offer_shard
            WHERE date < now() - interval '7 days' AND (profiles IS NOT NULL OR excluded IS NOT NULL)
            ORDER BY date LIMIT max_rows FOR NO KEY UPDATE SKIP LOCKED
        )) RETURNING id
    ) SELECT count(*) FROM cleared
$$;

CREATE FUNCTION public.count_dead_letters() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'public', 'pg_temp'
    AS $$
BEGIN
    IF TG_OP <> 'DELETE' THEN
        INSERT INTO dead_letter_count (tenant_id, fingerprint, task_type, status, delta, last_at)
        SELECT tenant_id, fingerprint, task_type, status, count(*), max(dlq_timestamp) FROM new_rows
        WHERE purged_at IS NULL GROUP BY 1, 2, 3, 4;
    END IF;
    IF TG_OP <> 'INSERT' THEN
        INSERT INTO dead_letter_count (tenant_id, fingerprint, task_type, status, delta, last_at)
        SELECT tenant_id, fingerprint, task_type, status, -count(*), min(dlq_timestamp) FROM old_rows o
        WHERE purged_at IS NULL  -- rows deleted with their tenant have no counts
          AND (TG_OP = 'UPDATE' OR tenant_id IS NULL OR EXISTS (SELECT FROM tenant t WHERE t.id = o.tenant_id))
        GROUP BY 1, 2, 3, 4;
    END IF;
    IF TG_OP = 'INSERT' THEN
        INSERT INTO dead_letter_count (tenant_id, fingerprint, task_type, hour, delta, last_at)
        SELECT tenant_id, fingerprint, task_type, date_trunc('hour', dlq_timestamp, 'UTC'), count(*), max(dlq_timestamp)
        FROM new_rows GROUP BY 1, 2, 3, 4;
    ELSIF TG_OP = 'UPDATE' THEN
        IF EXISTS (SELECT job_id, dlq_timestamp FROM new_rows EXCEPT SELECT job_id, dlq_timestamp FROM old_rows) THEN
            INSERT INTO dead_letter_count (tenant_id, fingerprint, task_type, hour, delta, last_at)
            SELECT n.tenant_id, n.fingerprint, n.task_type, date_trunc('hour', n.dlq_timestamp, 'UTC'), count(*),
                   max(n.dlq_timestamp)
            FROM new_rows n JOIN old_rows o USING (job_id) WHERE n.dlq_timestamp > o.dlq_timestamp GROUP BY 1, 2, 3, 4;
        END IF;
        -- An unassigned dead letter was assigned to a tenant: copy its group and move its words.
        IF EXISTS (SELECT job_id, tenant_id FROM new_rows EXCEPT SELECT job_id, tenant_id FROM old_rows) THEN
            INSERT INTO dead_letter_group (tenant_id, fingerprint, worker, error_type, message, words, first_seen)
            SELECT n.tenant_id, g.fingerprint, g.worker, g.error_type, g.message, g.words, n.dlq_timestamp
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

CREATE FUNCTION public.count_duplicate_offers(since timestamp with time zone) RETURNS bigint
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $$
    SELECT coalesce(sum(per_user.duplicates), 0)::bigint FROM (
        SELECT DISTINCT s.date, unnest(s.users) AS user_id FROM offer_shard s WHERE s.completed_at >= since
    ) AS served CROSS JOIN LATERAL (
        SELECT count(*) - least(count(DISTINCT o.candidate_id), max(o.rank)) AS duplicates
        FROM offers o WHERE o.date = served.date AND o.user_id = served.user_id
    ) AS per_user
$$;

CREATE FUNCTION public.count_finished_work() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'public', 'pg_temp'
    AS $$
DECLARE
    outcome text;
BEGIN
    IF TG_TABLE_NAME = 'document' THEN
        outcome := coalesce(NEW.matching_status, 'skipped');
    ELSE
        outcome := coalesce(NEW.status, 'skipped');
    END IF;
    INSERT INTO finished_work (worker, tenant_id, outcome, ended_at)
    VALUES (TG_ARGV[0], NEW.tenant_id, outcome, clock_timestamp());
    RETURN NULL;
END
$$;

CREATE FUNCTION public.delete_documents(ids uuid[], by text, deletion_reason text, successor uuid, at timestamp with time zone) RETURNS void
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $$
    INSERT INTO document_deletion (document_id, tenant_id, source_id, parent_id, first_page, last_page, bucket, key,
                                  version, file_name, content_hash, type, received_at, deleted_at, deleted_by, reason,
                                  replaced_by)
    SELECT id, tenant_id, source_id, parent_id, first_page, last_page, bucket, key, version, file_name, content_hash,
           type, received_at, at, by, deletion_reason, successor
    FROM document WHERE id = ANY(ids);
    DELETE FROM document WHERE id = ANY(ids);
$$;

CREATE FUNCTION public.delete_orphaned_offers() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $$
BEGIN
    DELETE FROM offers o USING deleted_jobs WHERE o.date = deleted_jobs.date AND o.user_id = deleted_jobs.user_id;
    RETURN NULL;
END
$$;

CREATE FUNCTION public.end_object_erasure(erasure_id uuid, at timestamp with time zone) RETURNS void
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $$
    UPDATE acquisition_job j SET key = '(erased)/' || j.id, version = NULL
    FROM object_erasure o
    WHERE o.id = erasure_id AND (j.bucket, j.key) = (o.bucket, o.key) AND j.skip_reason = 'The file was erased.'
      AND (o.version IS NULL OR o.version = j.version);
    UPDATE object_erasure SET due_at = modified_before, failures = 0 WHERE id = erasure_id AND modified_before > at;
    DELETE FROM object_erasure WHERE id = erasure_id AND modified_before <= at;
$$;

CREATE FUNCTION public.enqueue_payload_deletion() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $$
BEGIN
    INSERT INTO payload_deletion (key, tenant_id, due_at) VALUES (OLD.payload_s3_key, OLD.tenant_id, now());
    RETURN NULL;
END
$$;

CREATE FUNCTION public.erase_dead_letters(job_ids uuid[]) RETURNS void
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $$
    DELETE FROM failure_event WHERE job_id = ANY(job_ids)
        AND tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid;
    DELETE FROM dead_letter WHERE job_id = ANY(job_ids)
        AND tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid;
$$;

CREATE FUNCTION public.erase_documents(ids uuid[], at timestamp with time zone, stale_until timestamp with time zone, OUT jobs uuid[], OUT retained integer) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $$
DECLARE
    current_tenant_id uuid := nullif(current_setting('counterfoil.tenant', true), '')::uuid;
    source_ids uuid[];
    unneeded_source_ids uuid[];
BEGIN
    source_ids := ARRAY(
        SELECT source_id FROM document_deletion WHERE document_id = ANY(ids) AND tenant_id = current_tenant_id
        UNION SELECT source_id FROM document_duplicate_file
        WHERE document_id = ANY(ids) AND tenant_id = current_tenant_id
        UNION SELECT s.id FROM document_deletion r
            JOIN source s ON s.tenant_id = r.tenant_id AND s.content_hash = r.content_hash
            WHERE r.document_id = ANY(ids) AND r.tenant_id = current_tenant_id
        UNION SELECT s.id FROM unnest(ids) AS erased (id)
            JOIN source s ON s.attachments @> jsonb_build_array(jsonb_build_object('document', erased.id))
            WHERE s.tenant_id = current_tenant_id
    );
    unneeded_source_ids := ARRAY(
        SELECT s.id FROM source s WHERE s.id = ANY(source_ids)
          AND NOT EXISTS (SELECT FROM document d WHERE d.source_id = s.id)
          AND NOT EXISTS (SELECT FROM document_duplicate_file c JOIN document d
              ON d.id = c.document_id WHERE c.source_id = s.id)
          AND NOT EXISTS (
              SELECT FROM jsonb_array_elements(coalesce(s.attachments, '[]')) AS part
              JOIN document d ON d.id = (part ->> 'document')::uuid
          )
          -- The file and the audit trail of a replaced document are retained.
          AND NOT EXISTS (
              SELECT FROM document_deletion r
              WHERE r.source_id = s.id AND r.document_id <> ALL(ids) AND r.file_name <> '(erased)'
          )
    );
    jobs := ARRAY(SELECT job_id FROM source WHERE id = ANY(unneeded_source_ids));
    retained := cardinality(source_ids) - cardinality(unneeded_source_ids);
    WITH file AS (
        SELECT j.bucket, j.key, j.version FROM acquisition_job j WHERE j.id = ANY(jobs)
        UNION
        SELECT bucket, key, version FROM document_deletion
        WHERE document_id = ANY(ids) AND tenant_id = current_tenant_id
        UNION
        SELECT bucket, key, version FROM document_duplicate_file
        WHERE document_id = ANY(ids) AND tenant_id = current_tenant_id
    ), needed AS (
        -- Versions of other files that were uploaded with the same key are retained.
        SELECT f.*, EXISTS (
            SELECT FROM acquisition_job j WHERE (j.bucket, j.key) = (f.bucket, f.key) AND j.tenant_id IS NOT NULL
              AND j.id <> ALL(jobs) AND j.skip_reason IS DISTINCT FROM 'The file was erased.'
        ) OR EXISTS (SELECT FROM needed_versions(f.bucket, f.key, ids)) AS is_shared, EXISTS (
            SELECT FROM acquisition_job j WHERE (j.bucket, j.key) = (f.bucket, f.key) AND j.tenant_id IS NOT NULL
              AND j.version IS NOT DISTINCT FROM f.version
              AND j.id <> ALL(jobs) AND j.skip_reason IS DISTINCT FROM 'The file was erased.'
        ) OR EXISTS (
            SELECT FROM needed_versions(f.bucket, f.key, ids) AS needed (version)
            WHERE needed.version IS NULL OR f.version IS NULL OR needed.version = f.version
        ) AS is_needed FROM file f
    ), selected AS (
        SELECT bucket, key, CASE WHEN is_shared THEN version END AS version,
               CASE WHEN starts_with(key, 'attachments/') THEN stale_until ELSE at END AS modified_before
        FROM needed WHERE NOT is_needed
        UNION
        SELECT r.bucket, format('children/%s/%s/', r.tenant_id, r.document_id), NULL, stale_until
        FROM document_deletion r WHERE r.document_id = ANY(ids) AND r.tenant_id = current_tenant_id
        UNION
        SELECT r.bucket, format('exports/%s/%s/documents/%s.%s', t.slug, d.prefix, r.document_id, extension), NULL, at
        FROM document_deletion r JOIN tenant t ON t.id = r.tenant_id
        JOIN destination d ON d.tenant_id = r.tenant_id AND d.kind = 's3'
        CROSS JOIN unnest(ARRAY['json', 'csv']) AS extension
        WHERE r.document_id = ANY(ids) AND r.tenant_id = current_tenant_id
    )
    INSERT INTO object_erasure (bucket, key, tenant, version, modified_before, due_at)
    SELECT DISTINCT ON (bucket, key, version) bucket, key, current_tenant_id, version, modified_before, at FROM selected
    ON CONFLICT (bucket, key, version)
        DO UPDATE SET modified_before = excluded.modified_before, due_at = excluded.due_at;

    DELETE FROM output_job j USING destination d
    WHERE d.id = j.destination_id AND d.disabled_at IS NOT NULL AND j.tenant_id = current_tenant_id
      AND (j.subject_id = ANY(ids) OR j.subject = 'cluster' AND EXISTS (
          SELECT FROM unnest(ids) AS erased (id)
          WHERE j.payload -> 'documents' @> jsonb_build_array(jsonb_build_object('id', erased.id))
      ));
    DELETE FROM document_replacement
    WHERE tenant_id = current_tenant_id AND (document_id = ANY(ids) OR replacement_id = ANY(ids)
        OR EXISTS (SELECT FROM source s WHERE s.id = ANY(unneeded_source_ids) AND (s.bucket, s.key) =
                   (document_replacement.bucket, document_replacement.key)));
    DELETE FROM work_attempt WHERE work_id = ANY(ids || jobs) AND tenant_id = current_tenant_id;
    -- The rows remain, because a redelivered event must find an ended work item. Their keys are erased with the
    -- objects.
    UPDATE acquisition_job SET status = NULL, error = NULL, skip_reason = 'The file was erased.'
    WHERE id = ANY(jobs) AND tenant_id = current_tenant_id;
    DELETE FROM source WHERE id = ANY(unneeded_source_ids) AND tenant_id = current_tenant_id;
    UPDATE source s SET attachments = (
        SELECT jsonb_agg(CASE WHEN (part ->> 'document')::uuid = ANY(ids)
                              THEN part || '{"name": "(erased)", "sha256": null}' ELSE part END ORDER BY ordinal)
        FROM jsonb_array_elements(s.attachments) WITH ORDINALITY AS attachment (part, ordinal)
    ) WHERE s.id = ANY(source_ids) AND s.tenant_id = current_tenant_id AND s.attachments IS NOT NULL AND
        jsonb_array_length(s.attachments) > 0;
    -- The content hash remains, because an erased document must not be extracted again from a retained file.
    UPDATE document_deletion SET file_name = '(erased)', key = '(erased)', version = NULL, reason = NULL
    WHERE document_id = ANY(ids) AND tenant_id = current_tenant_id;
    UPDATE document_duplicate_file SET file_name = '(erased)', key = '(erased)', version = NULL
    WHERE document_id = ANY(ids) AND tenant_id = current_tenant_id;
END
$$;

CREATE FUNCTION public.erase_late_uploads(buckets text[], keys text[], slugs text[], at timestamp with time zone) RETURNS SETOF text
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $$
    WITH late AS (
        SELECT DISTINCT u.bucket, u.key FROM unnest(buckets, keys, slugs) AS u (bucket, key, slug)
        JOIN tenant_erasure e ON e.slug_hash = hash_of_slug(u.slug)
    ), scheduled AS (
        INSERT INTO object_erasure (bucket, key, modified_before, due_at) SELECT bucket, key, at, at FROM late
        ON CONFLICT (bucket, key, version)
            DO UPDATE SET modified_before = excluded.modified_before, due_at = excluded.due_at
    )
    SELECT DISTINCT key FROM late
$$;

CREATE FUNCTION public.erase_llm_judgments(ids uuid[]) RETURNS void
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $$
    DELETE FROM llm_judgment j USING llm_judgment_candidate c
    WHERE c.candidate_id = ANY(ids) AND (j.document_id, j.question) = (c.document_id, c.question)
      AND j.tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid
$$;

CREATE FUNCTION public.erase_tenant(erased_tenant_id uuid) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $$
DECLARE
    previous_tenant text := current_setting('counterfoil.tenant', true);
    organization_id uuid;
BEGIN
    PERFORM FROM tenant_erasure WHERE id = erased_tenant_id FOR UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    PERFORM set_config('counterfoil.tenant', erased_tenant_id::text, true);
    DELETE FROM tenant t WHERE t.id = erased_tenant_id RETURNING t.organization_id INTO organization_id;
    IF FOUND THEN
        UPDATE tenant_erasure SET row_count = row_count + 1 WHERE id = erased_tenant_id;
        DELETE FROM organization o WHERE o.id = organization_id
            AND NOT EXISTS (SELECT FROM tenant t WHERE t.organization_id = o.id);
    END IF;
    PERFORM set_config('counterfoil.tenant', coalesce(previous_tenant, ''), true);
END
$$;

CREATE FUNCTION public.erase_tenant_rows(erased_tenant_id uuid, target_table name, max_rows integer) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $_$
DECLARE
    previous_tenant text := current_setting('counterfoil.tenant', true);
    first_page bigint;
    page_count bigint;
    row_filter text := 'tenant_id = $1';
    deleted bigint;
    is_locked boolean := false;
    is_finished boolean := true;
BEGIN
    SELECT CASE WHEN next_table = target_table THEN next_page ELSE 0 END INTO first_page
    FROM tenant_erasure WHERE id = erased_tenant_id FOR UPDATE;
    IF NOT FOUND THEN
        RETURN true;
    END IF;
    IF target_table NOT IN (SELECT tenant_tables()) THEN
        RAISE EXCEPTION 'table % has no column tenant_id', target_table;
    END IF;
    IF NOT EXISTS (SELECT FROM pg_policies WHERE tablename = target_table AND policyname = 'erasure') THEN
        RAISE EXCEPTION 'table % has no policy "erasure"', target_table;
    END IF;
    PERFORM set_config('counterfoil.tenant', erased_tenant_id::text, true);
    IF NOT EXISTS (
        SELECT FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
        WHERE i.indrelid = format('%I', target_table)::regclass AND a.attname = 'tenant_id'
          AND i.indpred IS NULL AND i.indisvalid
    ) THEN
        page_count := pg_relation_size(format('%I', target_table)::regclass) / current_setting('block_size')::integer;
        row_filter := row_filter || format(' AND ctid >= ''(%s,0)'' AND ctid < ''(%s,0)''', first_page,
            first_page + max_rows);
        is_finished := first_page + max_rows >= page_count;
    END IF;
    IF target_table = 'destination' THEN
        DELETE FROM breaker b USING destination d
        WHERE d.tenant_id = erased_tenant_id AND b.name = 'destination:' || d.id;
    END IF;
    IF target_table = 'acquisition_job' THEN
        WITH deleted_rows AS (
            DELETE FROM acquisition_job WHERE ctid = ANY(ARRAY(
                SELECT ctid FROM acquisition_job WHERE tenant_id = erased_tenant_id LIMIT max_rows FOR UPDATE SKIP LOCKED
            )) RETURNING bucket, key
        ), mails AS (
            SELECT DISTINCT bucket, key FROM deleted_rows WHERE starts_with(key, 'inbox/') AND NOT EXISTS (
                SELECT FROM acquisition_job other
                WHERE (other.bucket, other.key) = (deleted_rows.bucket, deleted_rows.key)
                  AND other.tenant_id <> erased_tenant_id AND other.skip_reason IS DISTINCT FROM 'The file was erased.'
            )
        ), scheduled AS (
            INSERT INTO object_erasure (bucket, key, modified_before) SELECT bucket, key, now() FROM mails
            ON CONFLICT DO NOTHING
        ), unassigned AS (
            UPDATE acquisition_job j SET status = NULL, error = NULL, skip_reason = 'The file was erased.'
            FROM mails WHERE (j.bucket, j.key) = (mails.bucket, mails.key) AND j.tenant_id IS NULL
        )
        SELECT count(*) INTO deleted FROM deleted_rows;
    ELSE
        EXECUTE format(
            'WITH deleted_rows AS (DELETE FROM %1$I WHERE ctid = ANY(ARRAY(SELECT ctid FROM %1$I WHERE %2$s
             LIMIT $2 FOR UPDATE SKIP LOCKED)) RETURNING 1) SELECT count(*) FROM deleted_rows', target_table, row_filter
        ) INTO deleted USING erased_tenant_id, max_rows;
    END IF;
    IF deleted < max_rows THEN
        EXECUTE format('SELECT EXISTS (SELECT FROM %I WHERE %s)', target_table, row_filter)
            INTO is_locked USING erased_tenant_id;
        first_page := first_page + CASE WHEN is_locked THEN 0 ELSE max_rows END;
    ELSE
        is_finished := false;
    END IF;
    UPDATE tenant_erasure SET row_count = row_count + deleted, next_table = target_table,
        next_page = first_page WHERE id = erased_tenant_id;
    PERFORM set_config('counterfoil.tenant', coalesce(previous_tenant, ''), true);
    RETURN CASE WHEN NOT is_locked THEN is_finished END;
END
$_$;

CREATE FUNCTION public.find_tenant_erasure(erased_slug text, OUT requested_at timestamp with time zone, OUT row_count bigint, OUT object_count bigint, OUT finished_at timestamp with time zone) RETURNS SETOF record
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $$
    SELECT requested_at, row_count, object_count, finished_at FROM tenant_erasure
    WHERE slug_hash = hash_of_slug(erased_slug)
$$;

CREATE FUNCTION public.hash_of_slug(slug text) RETURNS bytea
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $$ SELECT sha256(salt || convert_to(slug, 'UTF8')) FROM audit_salt_global $$;

CREATE FUNCTION public.increment_payload_revision() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    NEW.payload_revision := OLD.payload_revision + 1;
    RETURN NEW;
END
$$;

CREATE FUNCTION public.index_document_words() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        DELETE FROM document_word WHERE document_id = NEW.id;
    END IF;
    INSERT INTO document_word (tenant_id, document_id, word, received_at)
    SELECT NEW.tenant_id, NEW.id, word, NEW.received_at
    FROM tokenize(concat_ws(' ', NEW.file_name,
                            NEW.structured_data #>> '{issuer,name}', NEW.structured_data #>> '{recipient,name}',
                            NEW.structured_data #>> '{supplier,name}', NEW.structured_data #>> '{buyer,name}')) AS word;
    RETURN NULL;
END
$$;

CREATE FUNCTION public.needed_versions(file_bucket text, file_key text, ids uuid[]) RETURNS SETOF text
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $$
    WITH own AS (SELECT nullif(current_setting('counterfoil.tenant', true), '')::uuid AS id)
    SELECT d.version FROM own JOIN document d ON d.tenant_id = own.id
    WHERE (d.bucket, d.key) = (file_bucket, file_key) AND d.id <> ALL(ids)
    UNION
    SELECT r.version FROM own JOIN document_deletion r ON r.tenant_id = own.id
    WHERE (r.bucket, r.key) = (file_bucket, file_key) AND r.document_id <> ALL(ids)
    UNION
    SELECT c.version FROM own JOIN document_duplicate_file c ON c.tenant_id = own.id
    WHERE (c.bucket, c.key) = (file_bucket, file_key) AND c.document_id <> ALL(ids)
$$;

CREATE FUNCTION public.on_ingestion_status_change() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $$
BEGIN
    PERFORM record_stage_change(NEW.tenant_id, NEW.id, 'ingestion', coalesce(NEW.status, 'skipped'),
                          coalesce(NEW.error, NEW.skip_reason));
    RETURN NULL;
END
$$;

CREATE FUNCTION public.on_matching_status_change() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $$
BEGIN
    PERFORM record_stage_change(NEW.tenant_id, NEW.id, 'matching', coalesce(NEW.matching_status, 'skipped'),
                          coalesce(NEW.matching_error, NEW.matching_skip_reason));
    RETURN NULL;
END
$$;

CREATE FUNCTION public.pack_profile(user_id uuid, external_id uuid, birth_date date, gender text, seeks_genders text[], min_age integer, max_age integer, latitude double precision, longitude double precision, max_distance_km integer, traits real[]) RETURNS bytea
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    scale constant double precision := 4194304;
    genders constant text[] := '{woman,man,nonbinary}';
    gender_bits integer := 0;
    packed_traits bytea := '\x00000000000000000000000000000000';
BEGIN
    FOR i IN 1..3 LOOP
        IF genders[i] = ANY (seeks_genders) THEN gender_bits := gender_bits | (1 << (i - 1)); END IF;
    END LOOP;
    FOR i IN 1..coalesce(cardinality(traits), 0) LOOP
        packed_traits := set_byte(packed_traits, i - 1, CASE WHEN traits[i] = 'NaN' THEN 128 ELSE
            round(127 * greatest(-1, least(1, coalesce(traits[i], 0))))::integer & 255 END);
    END LOOP;
    RETURN uuid_send(user_id) || uuid_send(external_id)
        || int4send(round(scale * cosd(latitude) * cosd(longitude))::integer)
        || int4send(round(scale * cosd(latitude) * sind(longitude))::integer)
        || int4send(round(scale * sind(latitude))::integer)
        || int4send((extract(year FROM birth_date) * 10000 + extract(month FROM birth_date) * 100 + extract(day FROM
            birth_date))::integer)
        || int2send((1 << (array_position(genders, gender) - 1))::smallint) || int2send(gender_bits::smallint)
        || int2send(min_age::smallint) || int2send(max_age::smallint) || int4send(max_distance_km) || packed_traits;
END
$$;

CREATE FUNCTION public.promote_duplicate_file(removed_file_id uuid) RETURNS SETOF uuid
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $$
    WITH heir AS (
        SELECT DISTINCT ON (c.document_id) c.*
        FROM document d JOIN document_duplicate_file c ON c.document_id = d.id
        WHERE d.parent_id = removed_file_id AND c.parent_id IS DISTINCT FROM removed_file_id
        ORDER BY c.document_id, c.id
    ), deleted AS (
        DELETE FROM document_duplicate_file c USING heir WHERE c.id = heir.id
    )
    UPDATE document d
    SET source_id = heir.source_id, parent_id = heir.parent_id, first_page = heir.first_page,
        last_page = heir.last_page, bucket = heir.bucket, key = heir.key, version = heir.version,
        file_name = heir.file_name
    FROM heir WHERE d.id = heir.document_id
    RETURNING d.id;
$$;

CREATE FUNCTION public.record_stage_change(changed_tenant uuid, changed_document uuid, changed_stage text, new_state text, change_reason text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $$
DECLARE
    previous_tenant text := current_setting('counterfoil.tenant', true);
BEGIN
    IF NOT EXISTS (SELECT FROM destination
                   WHERE tenant_id = changed_tenant AND disabled_at IS NULL AND 'document' = ANY (events)) THEN
        RETURN;
    END IF;
    PERFORM set_config('counterfoil.tenant', changed_tenant::text, true);
    WITH content AS (
        SELECT jsonb_build_object(
            'id', id, 'type', type, 'file_name', file_name,
            'received_at', to_char(received_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
            'state', new_state, 'stage', changed_stage, 'reason', change_reason, 'structured_data', structured_data
        ) AS payload
        FROM document WHERE id = changed_document
          AND (changed_stage = 'matching' OR new_state <> 'succeeded' OR matching_status IS NULL)
    ), enqueued AS (
        INSERT INTO output_job AS job (id, tenant_id, destination_id, subject, subject_id, schema_version, payload,
                                       requested_at, created_at, status, revision, claim_token)
        SELECT md5(format('document_output/%s/document/%s', destination.id, changed_document))::uuid, changed_tenant,
               destination.id, 'document', changed_document, 1, content.payload, now(), now(), 'pending', 1,
               nextval('claim_token')
        FROM destination CROSS JOIN content
        WHERE destination.tenant_id = changed_tenant AND destination.disabled_at IS NULL
          AND 'document' = ANY (destination.events)
        ORDER BY 1
        ON CONFLICT (destination_id, subject, subject_id) DO UPDATE SET schema_version = excluded.schema_version,
            payload = excluded.payload, requested_at = excluded.requested_at, delivered_at = NULL,
            response_status = NULL, status = 'pending', revision = job.revision + 1, send_number = 0,
            claim_token = nextval('claim_token'), error = NULL, skip_reason = NULL, failed_at = NULL, attempts = 0,
            dlq_returns = 0, claimed_at = NULL, lease_expires_at = NULL, next_attempt_at = NULL
        WHERE job.payload <> excluded.payload
        RETURNING job.id, job.revision, job.send_number, old.status = 'failed' AS had_failed
    ), closed AS (
        UPDATE dead_letter SET status = 'retried', version = version + 1, resolved_at = now(), resolved_by = worker,
            resolution = '{"action": "retried", "notes": "A newer result is delivered instead."}'
        FROM enqueued
        WHERE enqueued.had_failed AND dead_letter.task_type = 'document_output' AND dead_letter.status = 'pending'
          AND dead_letter.worker = 'document_output' AND dead_letter.work_id = enqueued.id
        RETURNING dead_letter.tenant_id, dead_letter.job_id, dead_letter.worker, dead_letter.revision,
            dead_letter.version
    ), audited AS (
        INSERT INTO dead_letter_audit (tenant_id, job_id, action, actor, detail, recorded_at)
        SELECT tenant_id, job_id, 'retried', worker, jsonb_build_object('revision', revision, 'version', version), now()
        FROM closed
    )
    INSERT INTO outbox (tenant_id, worker, work_id, revision, send_number, scheduled_at, created_at)
    SELECT changed_tenant, 'document_output', enqueued.id, enqueued.revision, enqueued.send_number, now(), now()
    FROM enqueued
    ON CONFLICT (worker, work_id, revision, send_number) DO NOTHING;
    PERFORM set_config('counterfoil.tenant', coalesce(previous_tenant, ''), true);
END
$$;

CREATE FUNCTION public.reject_audit_change() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $$
BEGIN
    IF TG_OP = 'DELETE' AND EXISTS (
        SELECT FROM tenant_erasure WHERE id = CASE TG_LEVEL
            WHEN 'ROW' THEN OLD.tenant_id ELSE nullif(current_setting('counterfoil.tenant', true), '')::uuid END
    ) THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'the audit trail is append-only' USING ERRCODE = 'insufficient_privilege';
END
$$;

CREATE FUNCTION public.reject_completed_offer_update() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    RAISE EXCEPTION 'The offers of user % for % are completed and cannot change', OLD.user_id, OLD.date
        USING ERRCODE = 'restrict_violation';
END
$$;

CREATE FUNCTION public.scrub_chat_tasks() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $$
BEGIN
    -- A placeholder replaces the message, because the dead letter of such a task can be retried.
    UPDATE task SET payload = '{"message": "(deleted)"}', payload_s3_key = NULL, result = NULL
    WHERE id IN (SELECT job_id FROM chat_message WHERE session_id = OLD.id AND role = 'user');
    RETURN OLD;
END
$$;

CREATE FUNCTION public.set_shard_completed_at() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    NEW.completed_at := CASE WHEN NEW.status IN ('succeeded', 'failed') THEN clock_timestamp() END;
    NEW.seconds := CASE WHEN NEW.status = 'succeeded' THEN extract(epoch FROM NEW.completed_at - OLD.claimed_at) END;
    RETURN NEW;
END
$$;

CREATE FUNCTION public.sync_matchmaking_jobs() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $$
BEGIN
    UPDATE matchmaking_jobs j SET
        status = CASE NEW.status WHEN 'in-progress' THEN 'running' ELSE NEW.status END,
        started_at = coalesce(NEW.claimed_at, j.started_at),
        lease_expires_at = NEW.lease_expires_at,
        attempt = NEW.attempts,
        retry_count = greatest(NEW.attempts - 1, 0),
        error_message = CASE WHEN NEW.status = 'in-progress' THEN j.error_message ELSE NEW.error END
    WHERE j.shard_id = NEW.id AND j.status <> 'completed';
    RETURN NULL;
END
$$;

CREATE FUNCTION public.task_messages(ids uuid[]) RETURNS TABLE(id uuid, body jsonb)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    SET "TimeZone" TO 'UTC'
    AS $_$
    SELECT t.id, CASE WHEN unsent.exists THEN jsonb_build_object(
        'schema_version', 1,
        'job_id', t.id,
        'task_type', t.task_type,
        'payload', coalesce(t.payload, jsonb_build_object('$claim_check', jsonb_build_object('key', t.payload_s3_key))),
        'metadata', jsonb_build_object(
            'created_at', t.created_at,
            'retry_count', CASE WHEN t.status = 'pending' THEN t.attempts ELSE greatest(t.attempts - 1, 0) END,
            'max_retry', t.max_retry,
            'last_error', last.error,
            'last_retry_at', last.ended_at,
            'idempotency_key', t.idempotency_key
        )
    ) END
    FROM task t
    CROSS JOIN LATERAL (
        SELECT EXISTS (SELECT FROM outbox o WHERE o.worker = 'tasks' AND o.work_id = t.id AND o.sent_at IS NULL)
    ) unsent
    LEFT JOIN LATERAL (
        SELECT a.ended_at, jsonb_build_object('type', a.error_type, 'message', a.error, 'timestamp', a.ended_at,
                                              'context', jsonb_build_object('attempt', a.number)) AS error
        FROM work_attempt a
        WHERE a.work_id = t.id AND a.worker = 'tasks' AND a.revision = t.revision AND a.outcome = 'retry'
        ORDER BY a.ended_at DESC LIMIT 1
    ) last ON true
    WHERE t.id = ANY(ids)
$_$;

CREATE FUNCTION public.tenant_tables() RETURNS SETOF name
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $$
    WITH RECURSIVE tenants AS (
        SELECT c.oid, c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant_id'
        WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r'
    ), depth AS (
        SELECT oid, 0 AS depth FROM tenants
        UNION
        SELECT f.conrelid, d.depth + 1 FROM depth d JOIN pg_constraint f ON f.confrelid = d.oid AND f.contype = 'f'
            AND f.conrelid <> f.confrelid AND d.depth < 20
    )
    SELECT t.relname FROM depth d JOIN tenants t USING (oid) GROUP BY t.relname
    ORDER BY t.relname = 'payload_deletion', max(d.depth) DESC, t.relname
$$;

CREATE FUNCTION public.tokenize(value text) RETURNS SETOF text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT DISTINCT left(word, 64) COLLATE "default"
    FROM regexp_split_to_table(lower(normalize(left(value, 4000), NFKC) COLLATE "pg_c_utf8"), '[^[:alnum:]]+') AS word
    WHERE word <> '' ORDER BY 1 LIMIT 64
$$;

CREATE FUNCTION public.unassigned_attempts(worker_name text, work_item_id uuid, max_rows integer) RETURNS TABLE(revision integer, number integer, started_at timestamp with time zone, ended_at timestamp with time zone, outcome text, error_type text, error text, next_attempt_at timestamp with time zone, trace_id text)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $$
    SELECT a.revision, a.number, a.started_at, a.ended_at, a.outcome, a.error_type, a.error, a.next_attempt_at,
        a.trace_id
    FROM work_attempt a
    WHERE a.work_id = work_item_id AND a.worker = worker_name AND a.tenant_id IS NULL
    ORDER BY a.ended_at DESC, a.id DESC LIMIT max_rows
$$;

CREATE TABLE public.acquisition_job (
    id uuid NOT NULL,
    tenant_id uuid,
    bucket text NOT NULL,
    key text NOT NULL,
    version text,
    sequencer text,
    size bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    status text DEFAULT 'pending'::text,
    error text,
    attempts integer DEFAULT 0 NOT NULL,
    failed_at timestamp with time zone,
    revision integer DEFAULT 1 NOT NULL,
    claim_token bigint DEFAULT 0 NOT NULL,
    claimed_at timestamp with time zone,
    lease_expires_at timestamp with time zone,
    next_attempt_at timestamp with time zone,
    send_number integer DEFAULT 0 NOT NULL,
    dlq_returns integer DEFAULT 0 NOT NULL,
    skip_reason text,
    CONSTRAINT acquisition_job_status_check CHECK ((status = ANY (ARRAY['pending'::text, 'in-progress'::text, 'succeeded'::text, 'failed'::text])))
);

ALTER TABLE ONLY public.acquisition_job FORCE ROW LEVEL SECURITY;

CREATE TABLE public.audit_entry (
    tenant_id uuid,
    number bigint NOT NULL,
    recorded_at timestamp with time zone NOT NULL,
    actor text NOT NULL,
    action text NOT NULL,
    targets text[] NOT NULL,
    version_before integer,
    version_after integer,
    note_hash bytea,
    detail jsonb DEFAULT '{}'::jsonb NOT NULL,
    previous_hash bytea,
    hash bytea NOT NULL,
    CONSTRAINT audit_entry_check CHECK (((number = 1) = (previous_hash IS NULL))),
    CONSTRAINT audit_entry_hash_check CHECK ((octet_length(hash) = 32)),
    CONSTRAINT audit_entry_note_hash_check CHECK ((octet_length(note_hash) = 32)),
    CONSTRAINT audit_entry_number_check CHECK ((number >= 1)),
    CONSTRAINT audit_entry_previous_hash_check CHECK ((octet_length(previous_hash) = 32))
);

ALTER TABLE ONLY public.audit_entry FORCE ROW LEVEL SECURITY;

CREATE TABLE public.audit_head (
    tenant_id uuid,
    number bigint NOT NULL,
    hash bytea NOT NULL
);

ALTER TABLE ONLY public.audit_head FORCE ROW LEVEL SECURITY;

CREATE TABLE public.audit_salt_global (
    is_only boolean DEFAULT true NOT NULL,
    salt bytea DEFAULT (uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())) NOT NULL,
    CONSTRAINT audit_salt_global_is_only_check CHECK (is_only)
);

CREATE TABLE public.breaker (
    name text NOT NULL,
    generation bigint DEFAULT 0 NOT NULL,
    failures integer DEFAULT 0 NOT NULL,
    open_count integer DEFAULT 0 NOT NULL,
    opened_at timestamp with time zone,
    open_until timestamp with time zone,
    is_probing boolean DEFAULT false NOT NULL,
    CONSTRAINT breaker_check CHECK ((((opened_at IS NULL) = (open_until IS NULL)) AND ((opened_at IS NULL) = (open_count = 0)))),
    CONSTRAINT breaker_check1 CHECK (((opened_at IS NOT NULL) OR (NOT is_probing)))
);

CREATE TABLE public.breaker_mapping_pause (
    mapping uuid NOT NULL,
    status text NOT NULL,
    breaker_opened_at timestamp with time zone NOT NULL,
    intended_at timestamp with time zone NOT NULL,
    CONSTRAINT breaker_mapping_pause_status_check CHECK ((status = ANY (ARRAY['pausing'::text, 'paused'::text, 'released'::text])))
);

CREATE TABLE public.chat_message (
    id uuid DEFAULT uuidv7() NOT NULL,
    tenant_id uuid NOT NULL,
    session_id uuid NOT NULL,
    number integer NOT NULL,
    role text NOT NULL,
    content text NOT NULL,
    job_id uuid NOT NULL,
    tokens integer NOT NULL,
    created_at timestamp with time zone NOT NULL,
    CONSTRAINT chat_message_content_check CHECK ((content <> ''::text)),
    CONSTRAINT chat_message_number_check CHECK ((number > 0)),
    CONSTRAINT chat_message_role_check CHECK ((role = ANY (ARRAY['user'::text, 'assistant'::text]))),
    CONSTRAINT chat_message_tokens_check CHECK ((tokens > 0))
);

ALTER TABLE ONLY public.chat_message FORCE ROW LEVEL SECURITY;

CREATE TABLE public.chat_session (
    id uuid NOT NULL,
    tenant_id uuid NOT NULL,
    user_id text,
    created_at timestamp with time zone NOT NULL,
    last_number integer DEFAULT 0 NOT NULL,
    last_used_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT chat_session_last_number_check CHECK ((last_number >= 0)),
    CONSTRAINT chat_session_user_id_check CHECK (((length(user_id) >= 1) AND (length(user_id) <= 255)))
);

ALTER TABLE ONLY public.chat_session FORCE ROW LEVEL SECURITY;

CREATE SEQUENCE public.claim_token
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

CREATE TABLE public.cluster_diagnostics (
    id uuid NOT NULL,
    tenant_id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    match_status text,
    result jsonb,
    computed_at timestamp with time zone,
    status text DEFAULT 'pending'::text,
    error text,
    attempts integer DEFAULT 0 NOT NULL,
    failed_at timestamp with time zone,
    revision integer DEFAULT 0 NOT NULL,
    claim_token bigint DEFAULT 0 NOT NULL,
    claimed_at timestamp with time zone,
    lease_expires_at timestamp with time zone,
    next_attempt_at timestamp with time zone,
    send_number integer DEFAULT 0 NOT NULL,
    dlq_returns integer DEFAULT 0 NOT NULL,
    skip_reason text,
    cluster_status text,
    supplier text,
    supplier_key text COLLATE pg_catalog."C",
    order_numbers text[],
    currency text,
    amount_ordered numeric,
    amount_delivered numeric,
    amount_billed numeric,
    amount_affected numeric,
    amount_affected_order double precision GENERATED ALWAYS AS ((amount_affected)::double precision) STORED,
    waiting_since timestamp with time zone,
    documents integer,
    CONSTRAINT cluster_diagnostics_check CHECK (((match_status IS NULL) = (result IS NULL))),
    CONSTRAINT cluster_diagnostics_check1 CHECK ((num_nulls(cluster_status, amount_affected, waiting_since, documents) = ANY (ARRAY[0, 4]))),
    CONSTRAINT cluster_diagnostics_check2 CHECK (((cluster_status IS NULL) = (result IS NULL))),
    CONSTRAINT cluster_diagnostics_cluster_status_check CHECK ((cluster_status = ANY (ARRAY['exception'::text, 'needs-review'::text, 'disputed'::text, 'incomplete'::text, 'accepted'::text, 'matched'::text]))),
    CONSTRAINT cluster_diagnostics_match_status_check CHECK ((match_status = ANY (ARRAY['matched'::text, 'within-tolerance'::text, 'exception'::text, 'incomplete'::text]))),
    CONSTRAINT cluster_diagnostics_status_check CHECK ((status = ANY (ARRAY['pending'::text, 'in-progress'::text, 'succeeded'::text, 'failed'::text])))
);

ALTER TABLE ONLY public.cluster_diagnostics FORCE ROW LEVEL SECURITY;

CREATE TABLE public.dead_letter (
    job_id uuid NOT NULL,
    tenant_id uuid,
    worker text NOT NULL,
    work_id uuid,
    revision integer,
    task_type text NOT NULL,
    payload jsonb NOT NULL,
    metadata jsonb NOT NULL,
    attempts integer NOT NULL,
    fingerprint text NOT NULL,
    previous_failures jsonb DEFAULT '[]'::jsonb NOT NULL,
    dlq_reason text NOT NULL,
    dlq_timestamp timestamp with time zone NOT NULL,
    status text DEFAULT 'pending'::text NOT NULL,
    resolution jsonb,
    resolved_at timestamp with time zone,
    resolved_by text,
    version integer DEFAULT 1 NOT NULL,
    purged_at timestamp with time zone,
    edited_payload jsonb,
    edit_metadata jsonb,
    purge_id uuid,
    retain_until timestamp with time zone,
    CONSTRAINT dead_letter_check CHECK (((work_id IS NULL) = (revision IS NULL))),
    CONSTRAINT dead_letter_check1 CHECK (((edited_payload IS NULL) = (edit_metadata IS NULL))),
    CONSTRAINT dead_letter_dlq_reason_check CHECK ((dlq_reason = ANY (ARRAY['non_retriable_error'::text, 'max_retries_exceeded'::text]))),
    CONSTRAINT dead_letter_status_check CHECK ((status = ANY (ARRAY['pending'::text, 'retried'::text, 'resolved'::text, 'ignored'::text])))
);

ALTER TABLE ONLY public.dead_letter FORCE ROW LEVEL SECURITY;

CREATE TABLE public.dead_letter_audit (
    id uuid DEFAULT uuidv7() NOT NULL,
    tenant_id uuid,
    job_id uuid NOT NULL,
    action text NOT NULL,
    actor text NOT NULL,
    detail jsonb DEFAULT '{}'::jsonb NOT NULL,
    recorded_at timestamp with time zone NOT NULL
);

ALTER TABLE ONLY public.dead_letter_audit FORCE ROW LEVEL SECURITY;

CREATE TABLE public.dead_letter_count (
    tenant_id uuid,
    fingerprint text NOT NULL,
    task_type text NOT NULL,
    status text,
    hour timestamp with time zone,
    delta bigint NOT NULL,
    last_at timestamp with time zone NOT NULL,
    is_rollup boolean DEFAULT false NOT NULL,
    CONSTRAINT dead_letter_count_check CHECK (((status IS NULL) <> (hour IS NULL))),
    CONSTRAINT dead_letter_count_status_check CHECK ((status = ANY (ARRAY['pending'::text, 'retried'::text, 'resolved'::text, 'ignored'::text])))
);

ALTER TABLE ONLY public.dead_letter_count FORCE ROW LEVEL SECURITY;

CREATE TABLE public.dead_letter_group (
    tenant_id uuid,
    fingerprint text NOT NULL,
    worker text NOT NULL,
    error_type text NOT NULL,
    message text NOT NULL,
    words text[] NOT NULL,
    first_seen timestamp with time zone NOT NULL,
    closed_as text,
    closed_at timestamp with time zone,
    CONSTRAINT dead_letter_group_check CHECK (((closed_as IS NULL) = (closed_at IS NULL))),
    CONSTRAINT dead_letter_group_closed_as_check CHECK ((closed_as = ANY (ARRAY['resolved'::text, 'ignored'::text])))
);

ALTER TABLE ONLY public.dead_letter_group FORCE ROW LEVEL SECURITY;

CREATE TABLE public.dead_letter_word (
    job_id uuid NOT NULL,
    tenant_id uuid,
    word text NOT NULL,
    dlq_timestamp timestamp with time zone NOT NULL
);

ALTER TABLE ONLY public.dead_letter_word FORCE ROW LEVEL SECURITY;

CREATE TABLE public.destination (
    id uuid DEFAULT uuidv7() NOT NULL,
    tenant_id uuid NOT NULL,
    name text NOT NULL,
    kind text NOT NULL,
    url text,
    prefix text,
    events text[] NOT NULL,
    created_at timestamp with time zone NOT NULL,
    disabled_at timestamp with time zone,
    allows_internal boolean DEFAULT false NOT NULL,
    CONSTRAINT destination_check CHECK ((((kind = 'webhook'::text) = (url IS NOT NULL)) AND ((kind = 's3'::text) = (prefix IS NOT NULL)))),
    CONSTRAINT destination_events_check CHECK (((events <@ ARRAY['cluster'::text, 'document'::text, 'offers'::text]) AND (cardinality(events) > 0))),
    CONSTRAINT destination_kind_check CHECK ((kind = ANY (ARRAY['webhook'::text, 's3'::text]))),
    CONSTRAINT destination_name_check CHECK ((name ~ '^[a-z0-9][a-z0-9-]{0,62}$'::text)),
    CONSTRAINT destination_prefix_check CHECK ((length(prefix) <= 200)),
    CONSTRAINT destination_url_check CHECK ((length(url) <= 2048))
);

ALTER TABLE ONLY public.destination FORCE ROW LEVEL SECURITY;

CREATE TABLE public.destination_secret (
    id uuid DEFAULT uuidv7() NOT NULL,
    tenant_id uuid NOT NULL,
    destination_id uuid NOT NULL,
    secret text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone,
    CONSTRAINT destination_secret_secret_check CHECK ((length(secret) >= 32))
);

ALTER TABLE ONLY public.destination_secret FORCE ROW LEVEL SECURITY;

CREATE TABLE public.document (
    id uuid DEFAULT uuidv7() NOT NULL,
    tenant_id uuid NOT NULL,
    source_id uuid NOT NULL,
    bucket text NOT NULL,
    key text NOT NULL,
    version text,
    file_name text NOT NULL,
    size bigint NOT NULL,
    content_hash bytea NOT NULL,
    received_at timestamp with time zone NOT NULL,
    duplicate_uploads integer DEFAULT 0 NOT NULL,
    last_duplicate_at timestamp with time zone NOT NULL,
    type text,
    method text,
    structured_data jsonb,
    cluster_id uuid,
    matching_status text,
    matching_error text,
    matching_attempts integer DEFAULT 0 NOT NULL,
    matching_failed_at timestamp with time zone,
    matching_revision integer DEFAULT 0 NOT NULL,
    matching_claim_token bigint DEFAULT 0 NOT NULL,
    matching_claimed_at timestamp with time zone,
    matching_lease_expires_at timestamp with time zone,
    matching_next_attempt_at timestamp with time zone,
    matching_send_number integer DEFAULT 0 NOT NULL,
    matching_dlq_returns integer DEFAULT 0 NOT NULL,
    matching_skip_reason text,
    parent_id uuid,
    first_page integer,
    last_page integer,
    evidence jsonb,
    CONSTRAINT document_child CHECK ((num_nulls(parent_id, first_page, last_page) = ANY (ARRAY[0, 3]))),
    CONSTRAINT document_content_hash_check CHECK ((length(content_hash) = 32)),
    CONSTRAINT document_matching_status_check CHECK ((matching_status = ANY (ARRAY['pending'::text, 'in-progress'::text, 'succeeded'::text, 'failed'::text]))),
    CONSTRAINT document_pages CHECK (((first_page >= 1) AND (first_page <= last_page))),
    CONSTRAINT document_type_check CHECK ((type = ANY (ARRAY['invoice'::text, 'credit_note'::text, 'purchase_order'::text, 'order_confirmation'::text, 'delivery_note'::text, 'goods_receipt'::text, 'contract'::text, 'other'::text])))
);

ALTER TABLE ONLY public.document FORCE ROW LEVEL SECURITY;

CREATE TABLE public.document_deletion (
    document_id uuid NOT NULL,
    tenant_id uuid NOT NULL,
    source_id uuid NOT NULL,
    parent_id uuid,
    first_page integer,
    last_page integer,
    bucket text NOT NULL,
    key text NOT NULL,
    version text,
    file_name text NOT NULL,
    content_hash bytea NOT NULL,
    type text,
    received_at timestamp with time zone NOT NULL,
    deleted_at timestamp with time zone NOT NULL,
    deleted_by text NOT NULL,
    reason text,
    replaced_by uuid,
    written_by_xid xid8 DEFAULT pg_current_xact_id() NOT NULL,
    CONSTRAINT document_deletion_deleted_by_check CHECK (((length(deleted_by) >= 1) AND (length(deleted_by) <= 254))),
    CONSTRAINT document_deletion_reason_check CHECK (((length(reason) >= 1) AND (length(reason) <= 2000)))
);

ALTER TABLE ONLY public.document_deletion FORCE ROW LEVEL SECURITY;

CREATE TABLE public.document_duplicate_file (
    id uuid DEFAULT uuidv7() NOT NULL,
    tenant_id uuid NOT NULL,
    document_id uuid NOT NULL,
    source_id uuid NOT NULL,
    parent_id uuid,
    first_page integer,
    last_page integer,
    bucket text NOT NULL,
    key text NOT NULL,
    version text,
    file_name text NOT NULL,
    CONSTRAINT document_duplicate_file_check CHECK ((num_nulls(parent_id, first_page, last_page) = ANY (ARRAY[0, 3])))
);

ALTER TABLE ONLY public.document_duplicate_file FORCE ROW LEVEL SECURITY;

CREATE TABLE public.document_embedding (
    tenant_id uuid NOT NULL,
    document_id uuid NOT NULL,
    text_hash bytea NOT NULL,
    model text NOT NULL,
    signature bytea NOT NULL,
    vector public.halfvec NOT NULL
);

ALTER TABLE ONLY public.document_embedding FORCE ROW LEVEL SECURITY;

CREATE TABLE public.document_key (
    tenant_id uuid NOT NULL,
    document_id uuid NOT NULL,
    type text NOT NULL,
    value text NOT NULL,
    written_by_xid xid8 DEFAULT pg_current_xact_id() NOT NULL
);

ALTER TABLE ONLY public.document_key FORCE ROW LEVEL SECURITY;

CREATE TABLE public.document_match (
    tenant_id uuid NOT NULL,
    document_a_id uuid NOT NULL,
    document_b_id uuid NOT NULL,
    score double precision NOT NULL,
    confidence text NOT NULL,
    evidence jsonb NOT NULL,
    decided_by text NOT NULL,
    reasoning text NOT NULL,
    decided_at timestamp with time zone NOT NULL,
    CONSTRAINT document_match_check CHECK ((document_a_id < document_b_id)),
    CONSTRAINT document_match_confidence_check CHECK ((confidence = ANY (ARRAY['high'::text, 'medium'::text, 'low'::text]))),
    CONSTRAINT document_match_decided_by_check CHECK ((decided_by = ANY (ARRAY['rules'::text, 'llm'::text, 'reviewer'::text])))
);

ALTER TABLE ONLY public.document_match FORCE ROW LEVEL SECURITY;

CREATE TABLE public.document_replacement (
    id uuid DEFAULT uuidv7() NOT NULL,
    tenant_id uuid NOT NULL,
    bucket text NOT NULL,
    key text NOT NULL,
    document_id uuid NOT NULL,
    requested_by text NOT NULL,
    reason text,
    requested_at timestamp with time zone NOT NULL,
    closed_at timestamp with time zone,
    replacement_id uuid,
    CONSTRAINT document_replacement_reason_check CHECK (((length(reason) >= 1) AND (length(reason) <= 2000))),
    CONSTRAINT document_replacement_requested_by_check CHECK (((length(requested_by) >= 1) AND (length(requested_by) <= 254)))
);

ALTER TABLE ONLY public.document_replacement FORCE ROW LEVEL SECURITY;

CREATE TABLE public.document_review (
    document_id uuid NOT NULL,
    tenant_id uuid NOT NULL,
    type text NOT NULL,
    state text DEFAULT 'open'::text NOT NULL,
    ambiguous_matches jsonb NOT NULL,
    probability double precision NOT NULL,
    weights_version text NOT NULL,
    opened_at timestamp with time zone NOT NULL,
    changed_at timestamp with time zone NOT NULL,
    closed_at timestamp with time zone,
    CONSTRAINT document_review_check CHECK (((closed_at IS NULL) = (state = 'open'::text))),
    CONSTRAINT document_review_probability_check CHECK (((probability >= (0)::double precision) AND (probability <= (1)::double precision))),
    CONSTRAINT document_review_state_check CHECK ((state = ANY (ARRAY['open'::text, 'decided'::text, 'resolved'::text])))
);

ALTER TABLE ONLY public.document_review FORCE ROW LEVEL SECURITY;

CREATE TABLE public.document_word (
    tenant_id uuid NOT NULL,
    document_id uuid NOT NULL,
    word text NOT NULL,
    received_at timestamp with time zone NOT NULL
);

ALTER TABLE ONLY public.document_word FORCE ROW LEVEL SECURITY;

CREATE TABLE public.failure_event (
    id uuid DEFAULT uuidv7() NOT NULL,
    tenant_id uuid,
    worker text NOT NULL,
    job_id uuid NOT NULL,
    revision integer NOT NULL,
    fingerprint text NOT NULL,
    payload jsonb NOT NULL,
    created_at timestamp with time zone NOT NULL,
    digest_id uuid
);

ALTER TABLE ONLY public.failure_event FORCE ROW LEVEL SECURITY;

CREATE UNLOGGED TABLE public.finished_work (
    worker text NOT NULL,
    tenant_id uuid,
    outcome text NOT NULL,
    ended_at timestamp with time zone NOT NULL,
    CONSTRAINT finished_work_outcome_check CHECK ((outcome = ANY (ARRAY['succeeded'::text, 'skipped'::text, 'failed'::text])))
);

ALTER TABLE ONLY public.finished_work FORCE ROW LEVEL SECURITY;

CREATE TABLE public.ingestion_job (
    id uuid NOT NULL,
    tenant_id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    status text DEFAULT 'pending'::text,
    error text,
    attempts integer DEFAULT 0 NOT NULL,
    failed_at timestamp with time zone,
    revision integer DEFAULT 0 NOT NULL,
    claim_token bigint DEFAULT 0 NOT NULL,
    claimed_at timestamp with time zone,
    lease_expires_at timestamp with time zone,
    next_attempt_at timestamp with time zone,
    send_number integer DEFAULT 0 NOT NULL,
    dlq_returns integer DEFAULT 0 NOT NULL,
    skip_reason text,
    CONSTRAINT ingestion_job_status_check CHECK ((status = ANY (ARRAY['pending'::text, 'in-progress'::text, 'succeeded'::text, 'failed'::text])))
);

ALTER TABLE ONLY public.ingestion_job FORCE ROW LEVEL SECURITY;

CREATE TABLE public.key_deletion (
    tenant_id uuid NOT NULL,
    written_by_xid xid8 DEFAULT pg_current_xact_id() NOT NULL
);

ALTER TABLE ONLY public.key_deletion FORCE ROW LEVEL SECURITY;

CREATE TABLE public.llm_call (
    id uuid NOT NULL,
    tenant_id uuid,
    work_id uuid,
    purpose text NOT NULL,
    provider text NOT NULL,
    model text NOT NULL,
    outcome text,
    input_tokens integer,
    output_tokens integer,
    latency_ms integer,
    cost_usd numeric,
    created_at timestamp with time zone NOT NULL,
    CONSTRAINT llm_call_outcome_check CHECK ((outcome = ANY (ARRAY['answered'::text, 'invalid_answer'::text, 'too_long'::text, 'rejected'::text, 'unavailable'::text, 'canceled'::text, 'failed'::text])))
);

ALTER TABLE ONLY public.llm_call FORCE ROW LEVEL SECURITY;

CREATE TABLE public.llm_daily_usage (
    tenant_id uuid NOT NULL,
    day date NOT NULL,
    calls integer NOT NULL,
    chat_calls integer DEFAULT 0 NOT NULL,
    CONSTRAINT llm_daily_usage_calls_check CHECK ((calls >= 0)),
    CONSTRAINT llm_daily_usage_chat_calls_check CHECK ((chat_calls >= 0))
);

ALTER TABLE ONLY public.llm_daily_usage FORCE ROW LEVEL SECURITY;

CREATE TABLE public.llm_judgment (
    tenant_id uuid NOT NULL,
    document_id uuid NOT NULL,
    question bytea NOT NULL,
    answer jsonb NOT NULL,
    model text NOT NULL,
    answered_at timestamp with time zone NOT NULL,
    prompt text,
    system text,
    request_json text,
    temperature double precision,
    input_tokens integer,
    output_tokens integer
);

ALTER TABLE ONLY public.llm_judgment FORCE ROW LEVEL SECURITY;

CREATE TABLE public.llm_judgment_candidate (
    tenant_id uuid NOT NULL,
    document_id uuid NOT NULL,
    question bytea NOT NULL,
    label text NOT NULL,
    candidate_id uuid NOT NULL,
    document_text text NOT NULL
);

ALTER TABLE ONLY public.llm_judgment_candidate FORCE ROW LEVEL SECURITY;

CREATE TABLE public.match_decision (
    id bigint NOT NULL,
    tenant_id uuid NOT NULL,
    document_a_id uuid NOT NULL,
    document_b_id uuid NOT NULL,
    decision text NOT NULL,
    decided_by text NOT NULL,
    reason text,
    decided_at timestamp with time zone NOT NULL,
    written_by_xid xid8 DEFAULT pg_current_xact_id() NOT NULL,
    CONSTRAINT match_decision_check CHECK ((document_a_id < document_b_id)),
    CONSTRAINT match_decision_decided_by_check CHECK (((length(decided_by) >= 1) AND (length(decided_by) <= 254))),
    CONSTRAINT match_decision_decision_check CHECK ((decision = ANY (ARRAY['confirmed'::text, 'rejected'::text]))),
    CONSTRAINT match_decision_reason_check CHECK (((length(reason) >= 1) AND (length(reason) <= 2000)))
);

ALTER TABLE ONLY public.match_decision FORCE ROW LEVEL SECURITY;

ALTER TABLE public.match_decision ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.match_decision_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.matchmaking_jobs (
    id uuid DEFAULT gen_random_uuid() NOT NULL,
    date date NOT NULL,
    timezone text NOT NULL,
    user_id uuid NOT NULL,
    status text NOT NULL,
    offers jsonb,
    started_at timestamp with time zone,
    completed_at timestamp with time zone,
    error_message text,
    retry_count integer DEFAULT 0,
    tenant_id uuid NOT NULL,
    shard_id uuid NOT NULL,
    algorithm_version integer,
    inputs_hash bytea,
    lease_expires_at timestamp with time zone,
    attempt integer DEFAULT 0 NOT NULL,
    CONSTRAINT matchmaking_jobs_check CHECK (((status = 'completed'::text) = (completed_at IS NOT NULL))),
    CONSTRAINT matchmaking_jobs_check1 CHECK (((status = 'completed'::text) = (offers IS NOT NULL))),
    CONSTRAINT matchmaking_jobs_inputs_hash_check CHECK ((octet_length(inputs_hash) = 32)),
    CONSTRAINT matchmaking_jobs_status_check CHECK ((status = ANY (ARRAY['pending'::text, 'running'::text, 'completed'::text, 'failed'::text])))
);

ALTER TABLE ONLY public.matchmaking_jobs FORCE ROW LEVEL SECURITY;

CREATE TABLE public.notification_delivery (
    digest_id uuid NOT NULL,
    tenant_id uuid,
    channel text NOT NULL,
    recipient text NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    next_attempt_at timestamp with time zone NOT NULL,
    sent_at timestamp with time zone,
    abandoned_at timestamp with time zone,
    error text,
    CONSTRAINT notification_delivery_check CHECK (((sent_at IS NULL) OR (abandoned_at IS NULL)))
);

ALTER TABLE ONLY public.notification_delivery FORCE ROW LEVEL SECURITY;

CREATE TABLE public.notification_digest (
    id uuid NOT NULL,
    tenant_id uuid,
    fingerprint text NOT NULL,
    created_at timestamp with time zone NOT NULL
);

ALTER TABLE ONLY public.notification_digest FORCE ROW LEVEL SECURITY;

CREATE TABLE public.object_erasure (
    id uuid DEFAULT uuidv7() NOT NULL,
    bucket text NOT NULL,
    key text NOT NULL,
    tenant uuid,
    version text,
    modified_before timestamp with time zone NOT NULL,
    due_at timestamp with time zone DEFAULT now() NOT NULL,
    failures integer DEFAULT 0 NOT NULL
);

CREATE TABLE public.offer_pool (
    id uuid NOT NULL,
    tenant_id uuid NOT NULL,
    date date NOT NULL,
    timezone text NOT NULL,
    offered_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    algorithm_version integer NOT NULL,
    rules jsonb NOT NULL,
    user_count integer NOT NULL,
    profiles_hash bytea NOT NULL,
    pinned_at timestamp with time zone NOT NULL,
    CONSTRAINT offer_pool_check CHECK ((expires_at > offered_at)),
    CONSTRAINT offer_pool_profiles_hash_check CHECK ((octet_length(profiles_hash) = 32))
);

ALTER TABLE ONLY public.offer_pool FORCE ROW LEVEL SECURITY;

CREATE TABLE public.offer_shard (
    id uuid NOT NULL,
    tenant_id uuid NOT NULL,
    pool_id uuid NOT NULL,
    name text NOT NULL,
    date date NOT NULL,
    timezone text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    users uuid[] NOT NULL,
    size integer GENERATED ALWAYS AS (cardinality(users)) STORED NOT NULL,
    profiles bytea,
    excluded bytea,
    completed integer,
    failed integer,
    completed_at timestamp with time zone,
    status text DEFAULT 'pending'::text,
    error text,
    attempts integer DEFAULT 0 NOT NULL,
    failed_at timestamp with time zone,
    revision integer DEFAULT 0 NOT NULL,
    claim_token bigint DEFAULT 0 NOT NULL,
    claimed_at timestamp with time zone,
    lease_expires_at timestamp with time zone,
    next_attempt_at timestamp with time zone,
    send_number integer DEFAULT 0 NOT NULL,
    dlq_returns integer DEFAULT 0 NOT NULL,
    skip_reason text,
    seconds double precision,
    CONSTRAINT offer_shard_check CHECK ((octet_length(profiles) = (76 * cardinality(users)))),
    CONSTRAINT offer_shard_status_check CHECK ((status = ANY (ARRAY['pending'::text, 'in-progress'::text, 'succeeded'::text, 'failed'::text]))),
    CONSTRAINT offer_shard_users_check CHECK ((cardinality(users) > 0))
);
ALTER TABLE ONLY public.offer_shard ALTER COLUMN profiles SET STORAGE EXTERNAL;

ALTER TABLE ONLY public.offer_shard FORCE ROW LEVEL SECURITY;

CREATE TABLE public.offers (
    date date NOT NULL,
    user_id uuid NOT NULL,
    candidate_id uuid NOT NULL,
    tenant_id uuid NOT NULL,
    id uuid NOT NULL,
    rank smallint NOT NULL,
    score integer NOT NULL,
    offered_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    CONSTRAINT offers_rank_check CHECK ((rank > 0)),
    CONSTRAINT offers_score_check CHECK (((score >= 0) AND (score <= 10000)))
);

ALTER TABLE ONLY public.offers FORCE ROW LEVEL SECURITY;

CREATE TABLE public.operation (
    id uuid DEFAULT uuidv7() NOT NULL,
    tenant_id uuid NOT NULL,
    action text NOT NULL,
    filter jsonb,
    note text,
    rate integer,
    canary integer,
    requested_by text NOT NULL,
    requested_at timestamp with time zone NOT NULL,
    state text DEFAULT 'selecting'::text NOT NULL,
    version integer DEFAULT 1 NOT NULL,
    reason text,
    ended_at timestamp with time zone,
    cursor_at timestamp with time zone,
    cursor_id uuid,
    selection_complete boolean DEFAULT false NOT NULL,
    selected integer DEFAULT 0 NOT NULL,
    processed integer DEFAULT 0 NOT NULL,
    succeeded integer DEFAULT 0 NOT NULL,
    failed integer DEFAULT 0 NOT NULL,
    skipped integer DEFAULT 0 NOT NULL,
    canary_started_at timestamp with time zone,
    canary_passed_at timestamp with time zone,
    last_step_at timestamp with time zone NOT NULL,
    restored_at timestamp with time zone,
    file jsonb,
    CONSTRAINT operation_action_check CHECK ((action = ANY (ARRAY['retry'::text, 'resolve'::text, 'ignore'::text, 'purge'::text, 'restore'::text, 'export'::text, 'extract'::text, 'match'::text]))),
    CONSTRAINT operation_canary_check CHECK ((canary >= 1)),
    CONSTRAINT operation_check CHECK (((ended_at IS NULL) = (state = ANY (ARRAY['selecting'::text, 'canary'::text, 'running'::text, 'paused'::text])))),
    CONSTRAINT operation_check1 CHECK (((cursor_at IS NULL) = (cursor_id IS NULL))),
    CONSTRAINT operation_check2 CHECK (((((succeeded + failed) + skipped) = processed) AND (processed <= selected))),
    CONSTRAINT operation_check3 CHECK (((canary IS NULL) OR (action = 'retry'::text))),
    CONSTRAINT operation_check4 CHECK (((note IS NOT NULL) OR (action <> ALL (ARRAY['resolve'::text, 'ignore'::text])))),
    CONSTRAINT operation_check5 CHECK (((filter IS NOT NULL) OR (action = ANY (ARRAY['retry'::text, 'resolve'::text, 'ignore'::text])))),
    CONSTRAINT operation_check6 CHECK (((rate IS NOT NULL) OR (action = ANY (ARRAY['purge'::text, 'restore'::text, 'export'::text])))),
    CONSTRAINT operation_check7 CHECK (((file IS NOT NULL) = (action = 'export'::text))),
    CONSTRAINT operation_check8 CHECK (((action <> 'purge'::text) OR ((filter ? 'status'::text) AND (NOT ((filter -> 'status'::text) ? 'pending'::text))))),
    CONSTRAINT operation_note_check CHECK (((length(note) >= 1) AND (length(note) <= 2000))),
    CONSTRAINT operation_rate_check CHECK (((rate >= 1) AND (rate <= 1000))),
    CONSTRAINT operation_requested_by_check CHECK ((requested_by <> ''::text)),
    CONSTRAINT operation_state_check CHECK ((state = ANY (ARRAY['selecting'::text, 'canary'::text, 'running'::text, 'paused'::text, 'done'::text, 'canceled'::text, 'halted'::text])))
);

ALTER TABLE ONLY public.operation FORCE ROW LEVEL SECURITY;

CREATE TABLE public.operation_item (
    operation_id uuid NOT NULL,
    number integer NOT NULL,
    tenant_id uuid NOT NULL,
    job_id uuid NOT NULL,
    result text,
    reason text,
    version integer,
    revision integer,
    CONSTRAINT operation_item_check CHECK (((reason IS NULL) = ((result IS NULL) OR (result = 'succeeded'::text)))),
    CONSTRAINT operation_item_result_check CHECK ((result = ANY (ARRAY['succeeded'::text, 'failed'::text, 'skipped'::text])))
)
WITH (fillfactor='80');

ALTER TABLE ONLY public.operation_item FORCE ROW LEVEL SECURITY;

CREATE TABLE public.organization (
    id uuid DEFAULT uuidv7() NOT NULL,
    name text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);

CREATE TABLE public.outbox (
    id uuid DEFAULT uuidv7() NOT NULL,
    tenant_id uuid,
    worker text NOT NULL,
    work_id uuid NOT NULL,
    revision integer NOT NULL,
    send_number integer NOT NULL,
    scheduled_at timestamp with time zone NOT NULL,
    created_at timestamp with time zone NOT NULL,
    sent_at timestamp with time zone,
    raw_body text
);

ALTER TABLE ONLY public.outbox FORCE ROW LEVEL SECURITY;

CREATE TABLE public.output_job (
    id uuid NOT NULL,
    tenant_id uuid NOT NULL,
    destination_id uuid NOT NULL,
    subject text NOT NULL,
    subject_id uuid NOT NULL,
    schema_version integer NOT NULL,
    payload jsonb NOT NULL,
    payload_revision integer DEFAULT 1 NOT NULL,
    requested_at timestamp with time zone NOT NULL,
    delivered_at timestamp with time zone,
    response_status integer,
    created_at timestamp with time zone NOT NULL,
    status text DEFAULT 'pending'::text,
    error text,
    attempts integer DEFAULT 0 NOT NULL,
    failed_at timestamp with time zone,
    revision integer DEFAULT 0 NOT NULL,
    claim_token bigint DEFAULT 0 NOT NULL,
    claimed_at timestamp with time zone,
    lease_expires_at timestamp with time zone,
    next_attempt_at timestamp with time zone,
    send_number integer DEFAULT 0 NOT NULL,
    dlq_returns integer DEFAULT 0 NOT NULL,
    skip_reason text,
    CONSTRAINT output_job_status_check CHECK ((status = ANY (ARRAY['pending'::text, 'in-progress'::text, 'succeeded'::text, 'failed'::text]))),
    CONSTRAINT output_job_subject_check CHECK ((subject = ANY (ARRAY['cluster'::text, 'document'::text, 'offers'::text])))
);

ALTER TABLE ONLY public.output_job FORCE ROW LEVEL SECURITY;

CREATE TABLE public.page_reading_cache (
    tenant_id uuid NOT NULL,
    document_id uuid NOT NULL,
    cache_key bytea NOT NULL,
    answer jsonb NOT NULL,
    provider text NOT NULL,
    created_at timestamp with time zone NOT NULL
);

ALTER TABLE ONLY public.page_reading_cache FORCE ROW LEVEL SECURITY;

CREATE TABLE public.payload_deletion (
    key text NOT NULL,
    tenant_id uuid NOT NULL,
    due_at timestamp with time zone NOT NULL,
    CONSTRAINT payload_deletion_check CHECK (starts_with(key, (('tasks/'::text || tenant_id) || '/'::text)))
);

ALTER TABLE ONLY public.payload_deletion FORCE ROW LEVEL SECURITY;

CREATE TABLE public.person (
    tenant_id uuid,
    subject text NOT NULL,
    email text NOT NULL,
    CONSTRAINT person_email_check CHECK (((length(email) >= 3) AND (length(email) <= 254))),
    CONSTRAINT person_subject_check CHECK (((length(subject) >= 1) AND (length(subject) <= 254)))
);

ALTER TABLE ONLY public.person FORCE ROW LEVEL SECURITY;

CREATE TABLE public.profile (
    user_id uuid NOT NULL,
    tenant_id uuid NOT NULL,
    timezone text NOT NULL,
    is_active boolean DEFAULT true NOT NULL,
    birth_date date NOT NULL,
    gender text NOT NULL,
    seeks_genders text[] NOT NULL,
    min_age integer NOT NULL,
    max_age integer NOT NULL,
    latitude double precision NOT NULL,
    longitude double precision NOT NULL,
    max_distance_km integer NOT NULL,
    traits real[] DEFAULT '{}'::real[] NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    external_id uuid NOT NULL,
    packed_row bytea GENERATED ALWAYS AS (public.pack_profile(user_id, external_id, birth_date, gender, seeks_genders, min_age, max_age, latitude, longitude, max_distance_km, traits)) STORED NOT NULL,
    CONSTRAINT profile_birth_date_check CHECK (((birth_date >= '1900-01-01'::date) AND (birth_date <= '2100-01-01'::date))),
    CONSTRAINT profile_check CHECK (((max_age >= min_age) AND (max_age <= 120))),
    CONSTRAINT profile_gender_check CHECK ((gender = ANY (ARRAY['woman'::text, 'man'::text, 'nonbinary'::text]))),
    CONSTRAINT profile_latitude_check CHECK (((latitude >= ('-90'::integer)::double precision) AND (latitude <= (90)::double precision))),
    CONSTRAINT profile_longitude_check CHECK (((longitude >= ('-180'::integer)::double precision) AND (longitude <= (180)::double precision))),
    CONSTRAINT profile_max_distance_km_check CHECK (((max_distance_km >= 1) AND (max_distance_km <= 20100))),
    CONSTRAINT profile_min_age_check CHECK (((min_age >= 18) AND (min_age <= 120))),
    CONSTRAINT profile_seeks_genders_check CHECK (((seeks_genders <@ '{woman,man,nonbinary}'::text[]) AND ((cardinality(seeks_genders) >= 1) AND (cardinality(seeks_genders) <= 3)))),
    CONSTRAINT profile_timezone_check CHECK (((length(timezone) >= 1) AND (length(timezone) <= 64))),
    CONSTRAINT profile_traits_check CHECK ((cardinality(traits) <= 16))
);

ALTER TABLE ONLY public.profile FORCE ROW LEVEL SECURITY;

CREATE TABLE public.queue_minute_stats (
    tenant_id uuid,
    worker text NOT NULL,
    minute timestamp with time zone NOT NULL,
    succeeded integer DEFAULT 0 NOT NULL,
    skipped integer DEFAULT 0 NOT NULL,
    failed integer DEFAULT 0 NOT NULL,
    pending integer,
    oldest_seconds integer,
    dead_letters integer,
    depth integer
);

ALTER TABLE ONLY public.queue_minute_stats FORCE ROW LEVEL SECURITY;

CREATE TABLE public.queue_pause (
    worker text NOT NULL,
    is_paused boolean NOT NULL,
    reason text NOT NULL,
    changed_by text NOT NULL,
    changed_at timestamp with time zone NOT NULL,
    is_applied boolean DEFAULT false NOT NULL,
    version integer DEFAULT 1 NOT NULL
);

CREATE TABLE public.rate_limit_bucket (
    tenant_id uuid,
    user_hash bytea,
    tokens double precision NOT NULL,
    refilled_at timestamp with time zone NOT NULL,
    purpose text DEFAULT 'change'::text NOT NULL,
    CONSTRAINT rate_limit_bucket_purpose_check CHECK ((purpose = ANY (ARRAY['change'::text, 'read'::text]))),
    CONSTRAINT rate_limit_bucket_tokens_check CHECK ((tokens >= (0)::double precision)),
    CONSTRAINT rate_limit_bucket_user_hash_check CHECK ((octet_length(user_hash) = 32))
);

ALTER TABLE ONLY public.rate_limit_bucket FORCE ROW LEVEL SECURITY;

CREATE TABLE public.source (
    id uuid DEFAULT uuidv7() NOT NULL,
    tenant_id uuid NOT NULL,
    job_id uuid NOT NULL,
    kind text NOT NULL,
    bucket text NOT NULL,
    key text NOT NULL,
    received_at timestamp with time zone NOT NULL,
    sender text,
    subject text,
    message_id text,
    attachments jsonb,
    rejection_reason text,
    spf text,
    dkim text,
    dmarc text,
    hold text,
    content_hash bytea,
    CONSTRAINT source_content_hash_check CHECK ((octet_length(content_hash) = 32)),
    CONSTRAINT source_hold_check CHECK ((hold = ANY (ARRAY['held'::text, 'released'::text, 'rejected'::text]))),
    CONSTRAINT source_kind_check CHECK ((kind = ANY (ARRAY['upload'::text, 'mail'::text]))),
    CONSTRAINT source_rejection_reason_check CHECK ((rejection_reason = ANY (ARRAY['virus'::text, 'spam'::text, 'on_hold'::text, 'rejected'::text, 'duplicate'::text, 'no_files'::text, 'no_documents'::text])))
);

ALTER TABLE ONLY public.source FORCE ROW LEVEL SECURITY;

CREATE TABLE public.task (
    id uuid NOT NULL,
    tenant_id uuid NOT NULL,
    task_type text NOT NULL,
    payload jsonb,
    payload_s3_key text,
    payload_hash bytea NOT NULL,
    max_retry integer NOT NULL,
    idempotency_key text NOT NULL,
    user_id text,
    created_at timestamp with time zone NOT NULL,
    result jsonb,
    ended_at timestamp with time zone,
    canceled_at timestamp with time zone,
    status text DEFAULT 'pending'::text,
    error text,
    attempts integer DEFAULT 0 NOT NULL,
    failed_at timestamp with time zone,
    revision integer DEFAULT 0 NOT NULL,
    claim_token bigint DEFAULT 0 NOT NULL,
    claimed_at timestamp with time zone,
    lease_expires_at timestamp with time zone,
    next_attempt_at timestamp with time zone,
    send_number integer DEFAULT 0 NOT NULL,
    dlq_returns integer DEFAULT 0 NOT NULL,
    skip_reason text,
    CONSTRAINT task_check CHECK (((payload IS NULL) <> (payload_s3_key IS NULL))),
    CONSTRAINT task_idempotency_key_check CHECK (((length(idempotency_key) >= 1) AND (length(idempotency_key) <= 255))),
    CONSTRAINT task_max_retry_check CHECK (((max_retry >= 0) AND (max_retry <= 20))),
    CONSTRAINT task_payload_hash_check CHECK ((octet_length(payload_hash) = 32)),
    CONSTRAINT task_payload_s3_key_check CHECK (((length(payload_s3_key) >= 1) AND (length(payload_s3_key) <= 1024))),
    CONSTRAINT task_status_check CHECK ((status = ANY (ARRAY['pending'::text, 'in-progress'::text, 'succeeded'::text, 'failed'::text]))),
    CONSTRAINT task_task_type_check CHECK (((length(task_type) >= 1) AND (length(task_type) <= 100))),
    CONSTRAINT task_user_id_check CHECK (((length(user_id) >= 1) AND (length(user_id) <= 255)))
);

ALTER TABLE ONLY public.task FORCE ROW LEVEL SECURITY;

CREATE TABLE public.tenant (
    id uuid DEFAULT uuidv7() NOT NULL,
    organization_id uuid NOT NULL,
    slug text NOT NULL,
    name text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    audit_salt bytea DEFAULT (uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())) NOT NULL,
    dmarc_policy text DEFAULT 'hold'::text NOT NULL,
    disabled_at timestamp with time zone,
    CONSTRAINT tenant_dmarc_policy_check CHECK ((dmarc_policy = ANY (ARRAY['hold'::text, 'reject'::text, 'accept'::text]))),
    CONSTRAINT tenant_slug_check CHECK ((slug ~ '^[a-z0-9][a-z0-9-]{0,62}$'::text))
);

ALTER TABLE ONLY public.tenant FORCE ROW LEVEL SECURITY;

CREATE TABLE public.tenant_address (
    address text NOT NULL,
    tenant_id uuid NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT tenant_address_address_check CHECK (((address = lower(address)) AND (length(address) <= 254) AND (address ~ '^[!-~]+@[!-~]+$'::text)))
);

ALTER TABLE ONLY public.tenant_address FORCE ROW LEVEL SECURITY;

CREATE TABLE public.tenant_admin (
    tenant_id uuid NOT NULL,
    email text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT tenant_admin_email_check CHECK (((length(email) <= 254) AND (email ~ '^[!-~]+@[!-~]+$'::text)))
);

ALTER TABLE ONLY public.tenant_admin FORCE ROW LEVEL SECURITY;

CREATE TABLE public.tenant_erasure (
    slug_hash bytea NOT NULL,
    id uuid,
    slug text,
    requested_at timestamp with time zone NOT NULL,
    row_count bigint DEFAULT 0 NOT NULL,
    object_count bigint DEFAULT 0 NOT NULL,
    cleared_at timestamp with time zone,
    finished_at timestamp with time zone,
    due_at timestamp with time zone NOT NULL,
    failures integer DEFAULT 0 NOT NULL,
    next_table name,
    next_page bigint DEFAULT 0 NOT NULL,
    CONSTRAINT tenant_erasure_check CHECK ((num_nulls(id, slug) =
CASE
    WHEN (finished_at IS NULL) THEN 0
    ELSE 2
END)),
    CONSTRAINT tenant_erasure_slug_hash_check CHECK ((octet_length(slug_hash) = 32))
);

CREATE TABLE public.tolerance (
    id uuid DEFAULT uuidv7() NOT NULL,
    tenant_id uuid NOT NULL,
    variance_type text NOT NULL,
    supplier text,
    article text,
    lower_absolute numeric,
    lower_percent numeric,
    upper_absolute numeric,
    upper_percent numeric,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    set_by text,
    reason text,
    evidence jsonb,
    CONSTRAINT tolerance_article_check CHECK (((length(article) >= 1) AND (length(article) <= 200))),
    CONSTRAINT tolerance_lower_absolute_check CHECK ((lower_absolute >= (0)::numeric)),
    CONSTRAINT tolerance_lower_percent_check CHECK ((lower_percent >= (0)::numeric)),
    CONSTRAINT tolerance_reason_check CHECK (((length(reason) >= 1) AND (length(reason) <= 2000))),
    CONSTRAINT tolerance_set_by_check CHECK (((length(set_by) >= 1) AND (length(set_by) <= 254))),
    CONSTRAINT tolerance_supplier_check CHECK (((length(supplier) >= 1) AND (length(supplier) <= 200))),
    CONSTRAINT tolerance_upper_absolute_check CHECK ((upper_absolute >= (0)::numeric)),
    CONSTRAINT tolerance_upper_percent_check CHECK ((upper_percent >= (0)::numeric)),
    CONSTRAINT tolerance_variance_type_check CHECK ((variance_type = ANY (ARRAY['price'::text, 'billed_quantity'::text, 'delivered_quantity'::text, 'total'::text, 'tax'::text])))
);

ALTER TABLE ONLY public.tolerance FORCE ROW LEVEL SECURITY;

CREATE TABLE public.upload_event_check (
    bucket text NOT NULL,
    counted_until timestamp with time zone NOT NULL
);

CREATE TABLE public.upload_inventory (
    bucket text NOT NULL,
    prefix text NOT NULL,
    manifest text,
    checksum text,
    files_read integer NOT NULL,
    rows_read bigint NOT NULL,
    started_at timestamp with time zone NOT NULL,
    is_complete boolean NOT NULL,
    complete_since timestamp with time zone NOT NULL
);

CREATE TABLE public.upload_listing (
    bucket text NOT NULL,
    prefix text NOT NULL,
    key_marker text,
    version_marker text,
    started_at timestamp with time zone NOT NULL,
    is_complete boolean NOT NULL,
    complete_since timestamp with time zone
);

CREATE TABLE public.user_block (
    user_id uuid NOT NULL,
    blocked_id uuid NOT NULL,
    tenant_id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    blocked_external_id uuid NOT NULL,
    CONSTRAINT user_block_check CHECK ((blocked_id <> user_id))
);

ALTER TABLE ONLY public.user_block FORCE ROW LEVEL SECURITY;

CREATE TABLE public.variance_decision (
    id bigint NOT NULL,
    tenant_id uuid NOT NULL,
    document_id uuid NOT NULL,
    code text NOT NULL,
    line text,
    expected numeric NOT NULL,
    actual numeric NOT NULL,
    unit text,
    currency text,
    decision text NOT NULL,
    decided_by text NOT NULL,
    reason text,
    decided_at timestamp with time zone NOT NULL,
    CONSTRAINT variance_decision_decided_by_check CHECK (((length(decided_by) >= 1) AND (length(decided_by) <= 254))),
    CONSTRAINT variance_decision_decision_check CHECK ((decision = ANY (ARRAY['accepted'::text, 'disputed'::text]))),
    CONSTRAINT variance_decision_reason_check CHECK (((length(reason) >= 1) AND (length(reason) <= 2000)))
);

ALTER TABLE ONLY public.variance_decision FORCE ROW LEVEL SECURITY;

ALTER TABLE public.variance_decision ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.variance_decision_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.work_attempt (
    id uuid DEFAULT uuidv7() NOT NULL,
    tenant_id uuid,
    worker text NOT NULL,
    work_id uuid NOT NULL,
    revision integer NOT NULL,
    number integer NOT NULL,
    started_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone NOT NULL,
    outcome text NOT NULL,
    error_type text,
    error text,
    next_attempt_at timestamp with time zone,
    trace_id text,
    CONSTRAINT work_attempt_outcome_check CHECK ((outcome = ANY (ARRAY['succeeded'::text, 'skipped'::text, 'retry'::text, 'deferred'::text, 'failed'::text, 'worker_lost'::text]))),
    CONSTRAINT work_attempt_trace_id_check CHECK ((trace_id ~ '^1-[0-9a-f]{8}-[0-9a-f]{24}$'::text))
);

ALTER TABLE ONLY public.work_attempt FORCE ROW LEVEL SECURITY;

ALTER TABLE ONLY public.acquisition_job
    ADD CONSTRAINT acquisition_job_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.acquisition_job
    ADD CONSTRAINT acquisition_job_tenant_id_id_key UNIQUE (tenant_id, id);

ALTER TABLE ONLY public.audit_entry
    ADD CONSTRAINT audit_entry_tenant_id_number_key UNIQUE NULLS NOT DISTINCT (tenant_id, number);

ALTER TABLE ONLY public.audit_head
    ADD CONSTRAINT audit_head_tenant_id_key UNIQUE NULLS NOT DISTINCT (tenant_id);

ALTER TABLE ONLY public.audit_salt_global
    ADD CONSTRAINT audit_salt_global_pkey PRIMARY KEY (is_only);

ALTER TABLE ONLY public.breaker_mapping_pause
    ADD CONSTRAINT breaker_mapping_pause_pkey PRIMARY KEY (mapping);

ALTER TABLE ONLY public.breaker
    ADD CONSTRAINT breaker_pkey PRIMARY KEY (name);

ALTER TABLE ONLY public.chat_message
    ADD CONSTRAINT chat_message_job_id_role_key UNIQUE (job_id, role);

ALTER TABLE ONLY public.chat_message
    ADD CONSTRAINT chat_message_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.chat_message
    ADD CONSTRAINT chat_message_session_id_number_key UNIQUE (session_id, number);

ALTER TABLE ONLY public.chat_session
    ADD CONSTRAINT chat_session_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.chat_session
    ADD CONSTRAINT chat_session_tenant_id_id_key UNIQUE (tenant_id, id);

ALTER TABLE ONLY public.cluster_diagnostics
    ADD CONSTRAINT cluster_diagnostics_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.dead_letter_audit
    ADD CONSTRAINT dead_letter_audit_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.dead_letter_group
    ADD CONSTRAINT dead_letter_group_tenant_id_fingerprint_key UNIQUE NULLS NOT DISTINCT (tenant_id, fingerprint);

ALTER TABLE ONLY public.dead_letter
    ADD CONSTRAINT dead_letter_pkey PRIMARY KEY (job_id);

ALTER TABLE ONLY public.dead_letter_word
    ADD CONSTRAINT dead_letter_word_pkey PRIMARY KEY (job_id, word);

ALTER TABLE ONLY public.destination
    ADD CONSTRAINT destination_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.destination_secret
    ADD CONSTRAINT destination_secret_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.destination
    ADD CONSTRAINT destination_tenant_id_id_key UNIQUE (tenant_id, id);

ALTER TABLE ONLY public.document_deletion
    ADD CONSTRAINT document_deletion_pkey PRIMARY KEY (document_id);

ALTER TABLE ONLY public.document_duplicate_file
    ADD CONSTRAINT document_duplicate_file_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.document_embedding
    ADD CONSTRAINT document_embedding_pkey PRIMARY KEY (document_id);

ALTER TABLE ONLY public.document_key
    ADD CONSTRAINT document_key_pkey PRIMARY KEY (document_id, type, value);

ALTER TABLE ONLY public.document_match
    ADD CONSTRAINT document_match_pkey PRIMARY KEY (document_a_id, document_b_id);

ALTER TABLE ONLY public.document
    ADD CONSTRAINT document_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.document_replacement
    ADD CONSTRAINT document_replacement_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.document_replacement
    ADD CONSTRAINT document_replacement_tenant_id_bucket_key_key UNIQUE (tenant_id, bucket, key);

ALTER TABLE ONLY public.document_review
    ADD CONSTRAINT document_review_pkey PRIMARY KEY (document_id);

ALTER TABLE ONLY public.document
    ADD CONSTRAINT document_tenant_id_content_hash_key UNIQUE (tenant_id, content_hash);

ALTER TABLE ONLY public.document
    ADD CONSTRAINT document_tenant_id_id_key UNIQUE (tenant_id, id);

ALTER TABLE ONLY public.document_word
    ADD CONSTRAINT document_word_pkey PRIMARY KEY (document_id, word);

ALTER TABLE ONLY public.failure_event
    ADD CONSTRAINT failure_event_job_id_revision_key UNIQUE (job_id, revision);

ALTER TABLE ONLY public.failure_event
    ADD CONSTRAINT failure_event_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.ingestion_job
    ADD CONSTRAINT ingestion_job_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.key_deletion
    ADD CONSTRAINT key_deletion_pkey PRIMARY KEY (tenant_id);

ALTER TABLE ONLY public.llm_call
    ADD CONSTRAINT llm_call_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.llm_daily_usage
    ADD CONSTRAINT llm_daily_usage_pkey PRIMARY KEY (tenant_id, day);

ALTER TABLE ONLY public.llm_judgment_candidate
    ADD CONSTRAINT llm_judgment_candidate_pkey PRIMARY KEY (document_id, question, label);

ALTER TABLE ONLY public.llm_judgment
    ADD CONSTRAINT llm_judgment_pkey PRIMARY KEY (document_id, question);

ALTER TABLE ONLY public.match_decision
    ADD CONSTRAINT match_decision_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.matchmaking_jobs
    ADD CONSTRAINT matchmaking_jobs_date_user_id_key UNIQUE (date, user_id);

ALTER TABLE ONLY public.matchmaking_jobs
    ADD CONSTRAINT matchmaking_jobs_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.notification_delivery
    ADD CONSTRAINT notification_delivery_pkey PRIMARY KEY (digest_id, channel, recipient);

ALTER TABLE ONLY public.notification_digest
    ADD CONSTRAINT notification_digest_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.object_erasure
    ADD CONSTRAINT object_erasure_bucket_key_version_key UNIQUE NULLS NOT DISTINCT (bucket, key, version);

ALTER TABLE ONLY public.object_erasure
    ADD CONSTRAINT object_erasure_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.offer_pool
    ADD CONSTRAINT offer_pool_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.offer_pool
    ADD CONSTRAINT offer_pool_tenant_id_date_timezone_key UNIQUE (tenant_id, date, timezone);

ALTER TABLE ONLY public.offer_shard
    ADD CONSTRAINT offer_shard_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.offer_shard
    ADD CONSTRAINT offer_shard_pool_id_name_key UNIQUE (pool_id, name);

ALTER TABLE ONLY public.offers
    ADD CONSTRAINT offers_once UNIQUE (date, user_id, candidate_id);

ALTER TABLE ONLY public.operation_item
    ADD CONSTRAINT operation_item_operation_id_job_id_key UNIQUE (operation_id, job_id);

ALTER TABLE ONLY public.operation_item
    ADD CONSTRAINT operation_item_pkey PRIMARY KEY (operation_id, number);

ALTER TABLE ONLY public.operation
    ADD CONSTRAINT operation_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.operation
    ADD CONSTRAINT operation_tenant_id_id_key UNIQUE (tenant_id, id);

ALTER TABLE ONLY public.organization
    ADD CONSTRAINT organization_name_key UNIQUE (name);

ALTER TABLE ONLY public.organization
    ADD CONSTRAINT organization_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.outbox
    ADD CONSTRAINT outbox_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.outbox
    ADD CONSTRAINT outbox_worker_work_id_revision_send_number_key UNIQUE (worker, work_id, revision, send_number);

ALTER TABLE ONLY public.output_job
    ADD CONSTRAINT output_job_destination_id_subject_subject_id_key UNIQUE (destination_id, subject, subject_id);

ALTER TABLE ONLY public.output_job
    ADD CONSTRAINT output_job_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.page_reading_cache
    ADD CONSTRAINT page_reading_cache_pkey PRIMARY KEY (document_id, cache_key);

ALTER TABLE ONLY public.payload_deletion
    ADD CONSTRAINT payload_deletion_pkey PRIMARY KEY (key);

ALTER TABLE ONLY public.person
    ADD CONSTRAINT person_tenant_id_subject_key UNIQUE NULLS NOT DISTINCT (tenant_id, subject);

ALTER TABLE ONLY public.profile
    ADD CONSTRAINT profile_pkey PRIMARY KEY (user_id);

ALTER TABLE ONLY public.profile
    ADD CONSTRAINT profile_tenant_id_external_id_key UNIQUE (tenant_id, external_id);

ALTER TABLE ONLY public.queue_minute_stats
    ADD CONSTRAINT queue_minute_stats_tenant_id_worker_minute_key UNIQUE NULLS NOT DISTINCT (tenant_id, worker, minute);

ALTER TABLE ONLY public.queue_pause
    ADD CONSTRAINT queue_pause_pkey PRIMARY KEY (worker);

ALTER TABLE ONLY public.rate_limit_bucket
    ADD CONSTRAINT rate_limit_bucket_tenant_id_user_hash_purpose_key UNIQUE NULLS NOT DISTINCT (tenant_id, user_hash, purpose);

ALTER TABLE ONLY public.source
    ADD CONSTRAINT source_job_id_key UNIQUE (job_id);

ALTER TABLE ONLY public.source
    ADD CONSTRAINT source_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.source
    ADD CONSTRAINT source_tenant_id_id_key UNIQUE (tenant_id, id);

ALTER TABLE ONLY public.task
    ADD CONSTRAINT task_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.task
    ADD CONSTRAINT task_tenant_id_id_key UNIQUE (tenant_id, id);

ALTER TABLE ONLY public.task
    ADD CONSTRAINT task_tenant_id_idempotency_key_key UNIQUE (tenant_id, idempotency_key);

ALTER TABLE ONLY public.tenant_address
    ADD CONSTRAINT tenant_address_pkey PRIMARY KEY (address);

ALTER TABLE ONLY public.tenant_admin
    ADD CONSTRAINT tenant_admin_pkey PRIMARY KEY (tenant_id, email);

ALTER TABLE ONLY public.tenant_erasure
    ADD CONSTRAINT tenant_erasure_id_key UNIQUE (id);

ALTER TABLE ONLY public.tenant_erasure
    ADD CONSTRAINT tenant_erasure_pkey PRIMARY KEY (slug_hash);

ALTER TABLE ONLY public.tenant
    ADD CONSTRAINT tenant_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.tenant
    ADD CONSTRAINT tenant_slug_key UNIQUE (slug);

ALTER TABLE ONLY public.tolerance
    ADD CONSTRAINT tolerance_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.tolerance
    ADD CONSTRAINT tolerance_tenant_id_variance_type_supplier_article_key UNIQUE NULLS NOT DISTINCT (tenant_id, variance_type, supplier, article);

ALTER TABLE ONLY public.upload_event_check
    ADD CONSTRAINT upload_event_check_pkey PRIMARY KEY (bucket);

ALTER TABLE ONLY public.upload_inventory
    ADD CONSTRAINT upload_inventory_pkey PRIMARY KEY (bucket, prefix);

ALTER TABLE ONLY public.upload_listing
    ADD CONSTRAINT upload_listing_pkey PRIMARY KEY (bucket, prefix);

ALTER TABLE ONLY public.user_block
    ADD CONSTRAINT user_block_pkey PRIMARY KEY (user_id, blocked_id);

ALTER TABLE ONLY public.variance_decision
    ADD CONSTRAINT variance_decision_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.work_attempt
    ADD CONSTRAINT work_attempt_pkey PRIMARY KEY (id);

CREATE INDEX acquisition_job_by_arrival ON public.acquisition_job USING btree (tenant_id, created_at, id);

CREATE INDEX acquisition_job_failed ON public.acquisition_job USING btree (tenant_id, created_at DESC, id DESC) WHERE (status = 'failed'::text);

CREATE UNIQUE INDEX acquisition_job_object ON public.acquisition_job USING btree (bucket, key, COALESCE(version, sequencer), tenant_id) NULLS NOT DISTINCT;

CREATE INDEX acquisition_job_status ON public.acquisition_job USING btree (status) WHERE (status = ANY (ARRAY['pending'::text, 'in-progress'::text]));

CREATE INDEX acquisition_job_without_event ON public.acquisition_job USING btree (created_at) WHERE (sequencer IS NULL);

CREATE INDEX chat_session_by_use ON public.chat_session USING btree (last_used_at);

CREATE INDEX chat_session_by_user ON public.chat_session USING btree (tenant_id, user_id, created_at DESC, id DESC);

CREATE INDEX cluster_diagnostics_by_age ON public.cluster_diagnostics USING btree (tenant_id, cluster_status, waiting_since, id);

CREATE INDEX cluster_diagnostics_by_amount ON public.cluster_diagnostics USING btree (tenant_id, cluster_status, amount_affected_order, id);

CREATE INDEX cluster_diagnostics_by_supplier ON public.cluster_diagnostics USING btree (tenant_id, supplier_key);

CREATE INDEX cluster_diagnostics_status ON public.cluster_diagnostics USING btree (status) WHERE (status = ANY (ARRAY['pending'::text, 'in-progress'::text]));

CREATE INDEX dead_letter_audit_by_job ON public.dead_letter_audit USING btree (job_id, recorded_at);

CREATE INDEX dead_letter_by_id_suffix ON public.dead_letter USING btree (reverse("right"((job_id)::text, 8)) COLLATE "C") WHERE (purged_at IS NULL);

CREATE INDEX dead_letter_by_purge ON public.dead_letter USING btree (purge_id) WHERE (purge_id IS NOT NULL);

CREATE INDEX dead_letter_by_resolved_at ON public.dead_letter USING btree (resolved_at) WHERE ((status <> 'pending'::text) AND (purged_at IS NULL) AND (retain_until IS NULL));

CREATE INDEX dead_letter_by_retention ON public.dead_letter USING btree (retain_until, resolved_at) WHERE (retain_until IS NOT NULL);

CREATE INDEX dead_letter_by_status ON public.dead_letter USING btree (status, dlq_timestamp DESC);

CREATE INDEX dead_letter_by_tenant ON public.dead_letter USING btree (tenant_id);

CREATE INDEX dead_letter_by_type ON public.dead_letter USING btree (task_type, status);

CREATE INDEX dead_letter_count_by_hour ON public.dead_letter_count USING btree (tenant_id, fingerprint, hour) INCLUDE (delta) WHERE (hour IS NOT NULL);

CREATE INDEX dead_letter_count_by_state ON public.dead_letter_count USING btree (tenant_id, fingerprint, task_type, status) INCLUDE (delta, last_at) WHERE (hour IS NULL);

CREATE INDEX dead_letter_count_by_tenant ON public.dead_letter_count USING btree (tenant_id);

CREATE INDEX dead_letter_count_pending_rollup ON public.dead_letter_count USING btree (tenant_id, fingerprint) WHERE (NOT is_rollup);

CREATE INDEX dead_letter_of_file ON public.dead_letter USING btree (work_id) WHERE ((worker = 'acquisition'::text) AND (purged_at IS NULL));

CREATE INDEX dead_letter_page ON public.dead_letter USING btree (tenant_id, status, dlq_timestamp DESC, job_id DESC) WHERE (purged_at IS NULL);

CREATE INDEX dead_letter_page_of_group ON public.dead_letter USING btree (tenant_id, fingerprint, status, dlq_timestamp DESC, job_id DESC) WHERE (purged_at IS NULL);

CREATE INDEX dead_letter_page_of_type ON public.dead_letter USING btree (tenant_id, task_type, status, dlq_timestamp DESC, job_id DESC) WHERE (purged_at IS NULL);

CREATE INDEX dead_letter_purged ON public.dead_letter USING btree (purged_at) WHERE (purged_at IS NOT NULL);

CREATE INDEX dead_letter_word_page ON public.dead_letter_word USING btree (tenant_id, word, dlq_timestamp DESC, job_id DESC);

CREATE UNIQUE INDEX destination_by_name ON public.destination USING btree (tenant_id, name) WHERE (disabled_at IS NULL);

CREATE UNIQUE INDEX destination_by_prefix ON public.destination USING btree (tenant_id, prefix) WHERE (disabled_at IS NULL);

CREATE UNIQUE INDEX destination_secret_expiring ON public.destination_secret USING btree (destination_id) WHERE (expires_at IS NOT NULL);

CREATE UNIQUE INDEX destination_secret_newest ON public.destination_secret USING btree (destination_id) WHERE (expires_at IS NULL);

CREATE INDEX document_by_cluster ON public.document USING btree (tenant_id, cluster_id);

CREATE INDEX document_by_id_suffix ON public.document USING btree (reverse("right"((id)::text, 8)) COLLATE "C");

CREATE INDEX document_by_key ON public.document USING btree (tenant_id, key);

CREATE UNIQUE INDEX document_by_parent ON public.document USING btree (parent_id, first_page) WHERE (parent_id IS NOT NULL);

CREATE INDEX document_by_received_at ON public.document USING btree (tenant_id, received_at, id);

CREATE INDEX document_by_source ON public.document USING btree (source_id);

CREATE INDEX document_deletion_by_key ON public.document_deletion USING btree (tenant_id, key);

CREATE INDEX document_deletion_by_parent ON public.document_deletion USING btree (parent_id) WHERE (parent_id IS NOT NULL);

CREATE INDEX document_deletion_by_source ON public.document_deletion USING btree (tenant_id, source_id);

CREATE INDEX document_deletion_by_transaction ON public.document_deletion USING btree (tenant_id, written_by_xid);

CREATE INDEX document_duplicate_file_by_document ON public.document_duplicate_file USING btree (document_id);

CREATE INDEX document_duplicate_file_by_key ON public.document_duplicate_file USING btree (tenant_id, key);

CREATE UNIQUE INDEX document_duplicate_file_by_parent ON public.document_duplicate_file USING btree (parent_id, first_page) WHERE (parent_id IS NOT NULL);

CREATE UNIQUE INDEX document_duplicate_file_by_source ON public.document_duplicate_file USING btree (source_id, document_id) WHERE (parent_id IS NULL);

CREATE INDEX document_embedding_by_text ON public.document_embedding USING btree (tenant_id, text_hash);

CREATE INDEX document_key_by_key ON public.document_key USING btree (tenant_id, type, value) INCLUDE (document_id);

CREATE INDEX document_match_by_b ON public.document_match USING btree (document_b_id);

CREATE INDEX document_replacement_by_successor ON public.document_replacement USING btree (replacement_id) WHERE ((replacement_id IS NOT NULL) AND (closed_at IS NULL));

CREATE INDEX document_review_in_order ON public.document_review USING btree (state, opened_at, document_id);

CREATE INDEX document_word_page ON public.document_word USING btree (tenant_id, word, received_at DESC, document_id DESC);

CREATE INDEX failure_event_by_digest ON public.failure_event USING btree (digest_id, created_at);

CREATE INDEX failure_event_by_tenant ON public.failure_event USING btree (tenant_id);

CREATE INDEX failure_event_ungrouped ON public.failure_event USING btree (tenant_id, fingerprint, created_at) WHERE (digest_id IS NULL);

CREATE INDEX idx_document_matching_status ON public.document USING btree (matching_status) WHERE (matching_status IS NOT NULL);

CREATE INDEX idx_matchmaking_jobs_date_timezone ON public.matchmaking_jobs USING btree (date, timezone);

CREATE INDEX idx_matchmaking_jobs_status ON public.matchmaking_jobs USING btree (status);

CREATE INDEX ingestion_job_status ON public.ingestion_job USING btree (status) WHERE (status = ANY (ARRAY['pending'::text, 'in-progress'::text]));

CREATE INDEX llm_call_by_age ON public.llm_call USING btree (created_at);

CREATE INDEX llm_call_by_time ON public.llm_call USING btree (tenant_id, created_at);

CREATE INDEX llm_call_by_work ON public.llm_call USING btree (work_id, created_at);

CREATE INDEX llm_judgment_candidate_by_candidate ON public.llm_judgment_candidate USING btree (tenant_id, candidate_id);

CREATE INDEX match_decision_by_a ON public.match_decision USING btree (document_a_id, document_b_id, id);

CREATE INDEX match_decision_by_b ON public.match_decision USING btree (document_b_id);

CREATE INDEX match_decision_by_transaction ON public.match_decision USING btree (tenant_id, written_by_xid);

CREATE INDEX matchmaking_jobs_by_shard ON public.matchmaking_jobs USING btree (shard_id);

CREATE INDEX matchmaking_jobs_failed ON public.matchmaking_jobs USING btree (date, timezone, user_id) WHERE (status = 'failed'::text);

CREATE INDEX notification_delivery_by_tenant ON public.notification_delivery USING btree (tenant_id);

CREATE INDEX notification_delivery_pending ON public.notification_delivery USING btree (channel, next_attempt_at) WHERE ((sent_at IS NULL) AND (abandoned_at IS NULL));

CREATE INDEX notification_digest_by_age ON public.notification_digest USING btree (created_at);

CREATE INDEX notification_digest_by_tenant ON public.notification_digest USING btree (tenant_id);

CREATE INDEX object_erasure_by_due ON public.object_erasure USING btree (due_at);

CREATE INDEX offer_pool_by_age ON public.offer_pool USING btree (date);

CREATE INDEX offer_pool_by_time ON public.offer_pool USING btree (tenant_id, offered_at, id);

CREATE INDEX offer_shard_by_tenant ON public.offer_shard USING btree (tenant_id);

CREATE INDEX offer_shard_status ON public.offer_shard USING btree (status) WHERE (status = ANY (ARRAY['pending'::text, 'in-progress'::text]));

CREATE INDEX offer_shard_with_profiles ON public.offer_shard USING btree (date) WHERE ((profiles IS NOT NULL) OR (excluded IS NOT NULL));

CREATE INDEX operation_active ON public.operation USING btree (requested_at, id) WHERE (state = ANY (ARRAY['selecting'::text, 'canary'::text, 'running'::text]));

CREATE INDEX operation_by_tenant ON public.operation USING btree (tenant_id, requested_at DESC, id DESC);

CREATE INDEX operation_ended ON public.operation USING btree (ended_at) WHERE (ended_at IS NOT NULL);

CREATE INDEX outbox_by_tenant ON public.outbox USING btree (tenant_id);

CREATE INDEX outbox_pending ON public.outbox USING btree (worker, scheduled_at) WHERE (sent_at IS NULL);

CREATE INDEX outbox_sent ON public.outbox USING btree (sent_at) WHERE (sent_at IS NOT NULL);

CREATE INDEX output_job_by_subject ON public.output_job USING btree (tenant_id, subject_id);

CREATE INDEX output_job_status ON public.output_job USING btree (status) WHERE (status = ANY (ARRAY['pending'::text, 'in-progress'::text]));

CREATE INDEX payload_deletion_by_due ON public.payload_deletion USING btree (due_at);

CREATE INDEX person_by_subject ON public.person USING btree (subject);

CREATE INDEX profile_by_zone ON public.profile USING btree (tenant_id, timezone, user_id) WHERE is_active;

CREATE INDEX queue_minute_stats_by_age ON public.queue_minute_stats USING btree (minute);

CREATE INDEX source_by_content ON public.source USING btree (tenant_id, content_hash) WHERE (content_hash IS NOT NULL);

CREATE INDEX source_by_hold ON public.source USING btree (tenant_id, hold, received_at, id) WHERE (hold IS NOT NULL);

CREATE INDEX source_by_message ON public.source USING btree (tenant_id, md5(((message_id || ' '::text) || COALESCE(sender, ''::text)))) WHERE ((message_id IS NOT NULL) AND (rejection_reason IS NULL));

CREATE INDEX source_by_part ON public.source USING gin (attachments jsonb_path_ops) WHERE (attachments IS NOT NULL);

CREATE INDEX task_by_age ON public.task USING btree (tenant_id, created_at DESC, id DESC);

CREATE INDEX task_by_ended_at ON public.task USING btree (ended_at) WHERE ((status = 'succeeded'::text) OR (status IS NULL));

CREATE INDEX task_by_id_suffix ON public.task USING btree (reverse("right"((id)::text, 8)) COLLATE "C");

CREATE INDEX task_by_status ON public.task USING btree (tenant_id, status, created_at DESC, id DESC);

CREATE INDEX task_by_type ON public.task USING btree (tenant_id, task_type, created_at DESC, id DESC);

CREATE INDEX task_status ON public.task USING btree (status) WHERE (status = ANY (ARRAY['pending'::text, 'in-progress'::text]));

CREATE INDEX tenant_address_by_tenant ON public.tenant_address USING btree (tenant_id);

CREATE INDEX user_block_by_blocked ON public.user_block USING btree (blocked_id);

CREATE INDEX user_block_by_tenant ON public.user_block USING btree (tenant_id);

CREATE INDEX variance_decision_by_document ON public.variance_decision USING btree (document_id, id);

CREATE INDEX work_attempt_by_age ON public.work_attempt USING btree (ended_at);

CREATE INDEX work_attempt_by_tenant ON public.work_attempt USING btree (tenant_id);

CREATE INDEX work_attempt_by_work ON public.work_attempt USING btree (work_id, worker, ended_at);

CREATE TRIGGER append_head AFTER INSERT ON public.audit_entry FOR EACH ROW EXECUTE FUNCTION public.append_audit_head();

CREATE TRIGGER count_on_delete AFTER DELETE ON public.dead_letter REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION public.count_dead_letters();

CREATE TRIGGER count_on_finish AFTER UPDATE OF status ON public.acquisition_job FOR EACH ROW WHEN ((((old.status = ANY (ARRAY['pending'::text, 'in-progress'::text])) AND (new.status = ANY (ARRAY['succeeded'::text, 'failed'::text]))) OR ((old.status = 'in-progress'::text) AND (new.status IS NULL)))) EXECUTE FUNCTION public.count_finished_work('acquisition');

CREATE TRIGGER count_on_finish AFTER UPDATE OF status ON public.cluster_diagnostics FOR EACH ROW WHEN ((((old.status = ANY (ARRAY['pending'::text, 'in-progress'::text])) AND (new.status = ANY (ARRAY['succeeded'::text, 'failed'::text]))) OR ((old.status = 'in-progress'::text) AND (new.status IS NULL)))) EXECUTE FUNCTION public.count_finished_work('diagnostics');

CREATE TRIGGER count_on_finish AFTER UPDATE OF matching_status ON public.document FOR EACH ROW WHEN ((((old.matching_status = ANY (ARRAY['pending'::text, 'in-progress'::text])) AND (new.matching_status = ANY (ARRAY['succeeded'::text, 'failed'::text]))) OR ((old.matching_status = 'in-progress'::text) AND (new.matching_status IS NULL)))) EXECUTE FUNCTION public.count_finished_work('matching');

CREATE TRIGGER count_on_finish AFTER UPDATE OF status ON public.ingestion_job FOR EACH ROW WHEN ((((old.status = ANY (ARRAY['pending'::text, 'in-progress'::text])) AND (new.status = ANY (ARRAY['succeeded'::text, 'failed'::text]))) OR ((old.status = 'in-progress'::text) AND (new.status IS NULL)))) EXECUTE FUNCTION public.count_finished_work('ingestion');

CREATE TRIGGER count_on_finish AFTER UPDATE OF status ON public.offer_shard FOR EACH ROW WHEN ((((old.status = ANY (ARRAY['pending'::text, 'in-progress'::text])) AND (new.status = ANY (ARRAY['succeeded'::text, 'failed'::text]))) OR ((old.status = 'in-progress'::text) AND (new.status IS NULL)))) EXECUTE FUNCTION public.count_finished_work('offers');

CREATE TRIGGER count_on_finish AFTER UPDATE OF status ON public.output_job FOR EACH ROW WHEN ((((old.status = ANY (ARRAY['pending'::text, 'in-progress'::text])) AND (new.status = ANY (ARRAY['succeeded'::text, 'failed'::text]))) OR ((old.status = 'in-progress'::text) AND (new.status IS NULL)))) EXECUTE FUNCTION public.count_finished_work('document_output');

CREATE TRIGGER count_on_finish AFTER UPDATE OF status ON public.task FOR EACH ROW WHEN ((((old.status = ANY (ARRAY['pending'::text, 'in-progress'::text])) AND (new.status = ANY (ARRAY['succeeded'::text, 'failed'::text]))) OR ((old.status = 'in-progress'::text) AND (new.status IS NULL)))) EXECUTE FUNCTION public.count_finished_work('tasks');

CREATE TRIGGER count_on_insert AFTER INSERT ON public.dead_letter REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION public.count_dead_letters();

CREATE TRIGGER count_on_update AFTER UPDATE ON public.dead_letter REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION public.count_dead_letters();

CREATE TRIGGER delete_orphaned_offers AFTER DELETE ON public.matchmaking_jobs REFERENCING OLD TABLE AS deleted_jobs FOR EACH STATEMENT EXECUTE FUNCTION public.delete_orphaned_offers();

CREATE TRIGGER enqueue_payload_deletion AFTER DELETE ON public.task FOR EACH ROW WHEN ((old.payload_s3_key IS NOT NULL)) EXECUTE FUNCTION public.enqueue_payload_deletion();

CREATE TRIGGER enqueue_replaced_payload_deletion AFTER UPDATE OF payload_s3_key ON public.task FOR EACH ROW WHEN (((old.payload_s3_key IS NOT NULL) AND (new.payload_s3_key IS DISTINCT FROM old.payload_s3_key))) EXECUTE FUNCTION public.enqueue_payload_deletion();

CREATE TRIGGER increment_payload_revision BEFORE UPDATE OF payload ON public.output_job FOR EACH ROW WHEN ((old.payload IS DISTINCT FROM new.payload)) EXECUTE FUNCTION public.increment_payload_revision();

CREATE TRIGGER index_words_on_insert AFTER INSERT ON public.document FOR EACH ROW EXECUTE FUNCTION public.index_document_words();

CREATE TRIGGER index_words_on_update AFTER UPDATE OF structured_data, file_name ON public.document FOR EACH ROW WHEN (((new.structured_data IS DISTINCT FROM old.structured_data) OR (new.file_name IS DISTINCT FROM old.file_name))) EXECUTE FUNCTION public.index_document_words();

CREATE TRIGGER record_stage_change AFTER UPDATE OF matching_status ON public.document FOR EACH ROW WHEN (((old.matching_status IS DISTINCT FROM new.matching_status) AND ((new.matching_status IS NULL) OR (new.matching_status = ANY (ARRAY['succeeded'::text, 'failed'::text]))))) EXECUTE FUNCTION public.on_matching_status_change();

CREATE TRIGGER record_stage_change AFTER UPDATE OF status ON public.ingestion_job FOR EACH ROW WHEN (((old.status IS DISTINCT FROM new.status) AND ((new.status IS NULL) OR (new.status = ANY (ARRAY['succeeded'::text, 'failed'::text]))))) EXECUTE FUNCTION public.on_ingestion_status_change();

CREATE TRIGGER reject_change BEFORE DELETE OR UPDATE OR TRUNCATE ON public.audit_entry FOR EACH STATEMENT EXECUTE FUNCTION public.reject_audit_change();

CREATE TRIGGER reject_change BEFORE DELETE OR TRUNCATE ON public.audit_head FOR EACH STATEMENT EXECUTE FUNCTION public.reject_audit_change();

CREATE TRIGGER reject_completed_update BEFORE UPDATE ON public.matchmaking_jobs FOR EACH ROW WHEN ((old.status = 'completed'::text)) EXECUTE FUNCTION public.reject_completed_offer_update();

CREATE TRIGGER reject_row_deletion BEFORE DELETE ON public.audit_entry FOR EACH ROW EXECUTE FUNCTION public.reject_audit_change();

CREATE TRIGGER reject_row_deletion BEFORE DELETE ON public.audit_head FOR EACH ROW EXECUTE FUNCTION public.reject_audit_change();

CREATE TRIGGER scrub_tasks BEFORE DELETE ON public.chat_session FOR EACH ROW EXECUTE FUNCTION public.scrub_chat_tasks();

CREATE TRIGGER set_completed_at BEFORE UPDATE OF status ON public.offer_shard FOR EACH ROW WHEN ((old.status IS DISTINCT FROM new.status)) EXECUTE FUNCTION public.set_shard_completed_at();

CREATE TRIGGER sync_jobs AFTER UPDATE OF status ON public.offer_shard FOR EACH ROW WHEN (((new.status = ANY (ARRAY['pending'::text, 'in-progress'::text, 'failed'::text])) AND ((old.status IS DISTINCT FROM new.status) OR (old.claim_token <> new.claim_token)))) EXECUTE FUNCTION public.sync_matchmaking_jobs();

ALTER TABLE ONLY public.acquisition_job
    ADD CONSTRAINT acquisition_job_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES public.tenant(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.chat_message
    ADD CONSTRAINT chat_message_tenant_id_session_id_fkey FOREIGN KEY (tenant_id, session_id) REFERENCES public.chat_session(tenant_id, id) ON DELETE CASCADE;

ALTER TABLE ONLY public.chat_session
    ADD CONSTRAINT chat_session_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES public.tenant(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.cluster_diagnostics
    ADD CONSTRAINT cluster_diagnostics_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES public.tenant(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.dead_letter_count
    ADD CONSTRAINT dead_letter_count_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES public.tenant(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.dead_letter_group
    ADD CONSTRAINT dead_letter_group_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES public.tenant(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.dead_letter
    ADD CONSTRAINT dead_letter_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES public.tenant(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.dead_letter
    ADD CONSTRAINT dead_letter_tenant_id_purge_id_fkey FOREIGN KEY (tenant_id, purge_id) REFERENCES public.operation(tenant_id, id) ON DELETE SET NULL (purge_id);

ALTER TABLE ONLY public.dead_letter_word
    ADD CONSTRAINT dead_letter_word_job_id_fkey FOREIGN KEY (job_id) REFERENCES public.dead_letter(job_id) ON DELETE CASCADE;

ALTER TABLE ONLY public.destination_secret
    ADD CONSTRAINT destination_secret_tenant_id_destination_id_fkey FOREIGN KEY (tenant_id, destination_id) REFERENCES public.destination(tenant_id, id) ON DELETE CASCADE;

ALTER TABLE ONLY public.destination
    ADD CONSTRAINT destination_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES public.tenant(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.document_deletion
    ADD CONSTRAINT document_deletion_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES public.tenant(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.document_deletion
    ADD CONSTRAINT document_deletion_tenant_id_source_id_fkey FOREIGN KEY (tenant_id, source_id) REFERENCES public.source(tenant_id, id) ON DELETE CASCADE;

ALTER TABLE ONLY public.document_duplicate_file
    ADD CONSTRAINT document_duplicate_file_tenant_id_parent_id_fkey FOREIGN KEY (tenant_id, parent_id) REFERENCES public.document(tenant_id, id) ON DELETE CASCADE;

ALTER TABLE ONLY public.document_duplicate_file
    ADD CONSTRAINT document_duplicate_file_tenant_id_source_id_fkey FOREIGN KEY (tenant_id, source_id) REFERENCES public.source(tenant_id, id) ON DELETE CASCADE;

ALTER TABLE ONLY public.document_embedding
    ADD CONSTRAINT document_embedding_tenant_id_document_id_fkey FOREIGN KEY (tenant_id, document_id) REFERENCES public.document(tenant_id, id) ON DELETE CASCADE;

ALTER TABLE ONLY public.document_key
    ADD CONSTRAINT document_key_tenant_id_document_id_fkey FOREIGN KEY (tenant_id, document_id) REFERENCES public.document(tenant_id, id) ON DELETE CASCADE;

ALTER TABLE ONLY public.document_match
    ADD CONSTRAINT document_match_tenant_id_document_a_id_fkey FOREIGN KEY (tenant_id, document_a_id) REFERENCES public.document(tenant_id, id) ON DELETE CASCADE;

ALTER TABLE ONLY public.document_match
    ADD CONSTRAINT document_match_tenant_id_document_b_id_fkey FOREIGN KEY (tenant_id, document_b_id) REFERENCES public.document(tenant_id, id) ON DELETE CASCADE;

ALTER TABLE ONLY public.document_replacement
    ADD CONSTRAINT document_replacement_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES public.tenant(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.document_review
    ADD CONSTRAINT document_review_tenant_id_document_id_fkey FOREIGN KEY (tenant_id, document_id) REFERENCES public.document(tenant_id, id) ON DELETE CASCADE;

ALTER TABLE ONLY public.document
    ADD CONSTRAINT document_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES public.tenant(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.document
    ADD CONSTRAINT document_tenant_id_parent_id_fkey FOREIGN KEY (tenant_id, parent_id) REFERENCES public.document(tenant_id, id) ON DELETE CASCADE;

ALTER TABLE ONLY public.document
    ADD CONSTRAINT document_tenant_id_source_id_fkey FOREIGN KEY (tenant_id, source_id) REFERENCES public.source(tenant_id, id) ON DELETE CASCADE;

ALTER TABLE ONLY public.document_word
    ADD CONSTRAINT document_word_tenant_id_document_id_fkey FOREIGN KEY (tenant_id, document_id) REFERENCES public.document(tenant_id, id) ON DELETE CASCADE;

ALTER TABLE ONLY public.failure_event
    ADD CONSTRAINT failure_event_digest_id_fkey FOREIGN KEY (digest_id) REFERENCES public.notification_digest(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.failure_event
    ADD CONSTRAINT failure_event_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES public.tenant(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.ingestion_job
    ADD CONSTRAINT ingestion_job_tenant_id_id_fkey FOREIGN KEY (tenant_id, id) REFERENCES public.document(tenant_id, id) ON DELETE CASCADE;

ALTER TABLE ONLY public.key_deletion
    ADD CONSTRAINT key_deletion_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES public.tenant(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.llm_call
    ADD CONSTRAINT llm_call_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES public.tenant(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.llm_daily_usage
    ADD CONSTRAINT llm_daily_usage_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES public.tenant(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.llm_judgment_candidate
    ADD CONSTRAINT llm_judgment_candidate_document_id_question_fkey FOREIGN KEY (document_id, question) REFERENCES public.llm_judgment(document_id, question) ON DELETE CASCADE;

ALTER TABLE ONLY public.llm_judgment_candidate
    ADD CONSTRAINT llm_judgment_candidate_tenant_id_candidate_id_fkey FOREIGN KEY (tenant_id, candidate_id) REFERENCES public.document(tenant_id, id) ON DELETE CASCADE;

ALTER TABLE ONLY public.llm_judgment_candidate
    ADD CONSTRAINT llm_judgment_candidate_tenant_id_document_id_fkey FOREIGN KEY (tenant_id, document_id) REFERENCES public.document(tenant_id, id) ON DELETE CASCADE;

ALTER TABLE ONLY public.llm_judgment
    ADD CONSTRAINT llm_judgment_tenant_id_document_id_fkey FOREIGN KEY (tenant_id, document_id) REFERENCES public.document(tenant_id, id) ON DELETE CASCADE;

ALTER TABLE ONLY public.match_decision
    ADD CONSTRAINT match_decision_tenant_id_document_a_id_fkey FOREIGN KEY (tenant_id, document_a_id) REFERENCES public.document(tenant_id, id) ON DELETE CASCADE;

ALTER TABLE ONLY public.match_decision
    ADD CONSTRAINT match_decision_tenant_id_document_b_id_fkey FOREIGN KEY (tenant_id, document_b_id) REFERENCES public.document(tenant_id, id) ON DELETE CASCADE;

ALTER TABLE ONLY public.matchmaking_jobs
    ADD CONSTRAINT matchmaking_jobs_user_id_fkey FOREIGN KEY (user_id) REFERENCES public.profile(user_id) ON DELETE CASCADE;

ALTER TABLE ONLY public.notification_delivery
    ADD CONSTRAINT notification_delivery_digest_id_fkey FOREIGN KEY (digest_id) REFERENCES public.notification_digest(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.notification_delivery
    ADD CONSTRAINT notification_delivery_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES public.tenant(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.notification_digest
    ADD CONSTRAINT notification_digest_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES public.tenant(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.offer_pool
    ADD CONSTRAINT offer_pool_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES public.tenant(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.offer_shard
    ADD CONSTRAINT offer_shard_pool_id_fkey FOREIGN KEY (pool_id) REFERENCES public.offer_pool(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.offer_shard
    ADD CONSTRAINT offer_shard_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES public.tenant(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.operation_item
    ADD CONSTRAINT operation_item_tenant_id_operation_id_fkey FOREIGN KEY (tenant_id, operation_id) REFERENCES public.operation(tenant_id, id) ON DELETE CASCADE;

ALTER TABLE ONLY public.operation
    ADD CONSTRAINT operation_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES public.tenant(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.outbox
    ADD CONSTRAINT outbox_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES public.tenant(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.output_job
    ADD CONSTRAINT output_job_tenant_id_destination_id_fkey FOREIGN KEY (tenant_id, destination_id) REFERENCES public.destination(tenant_id, id) ON DELETE CASCADE;

ALTER TABLE ONLY public.page_reading_cache
    ADD CONSTRAINT page_reading_cache_tenant_id_document_id_fkey FOREIGN KEY (tenant_id, document_id) REFERENCES public.document(tenant_id, id) ON DELETE CASCADE;

ALTER TABLE ONLY public.person
    ADD CONSTRAINT person_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES public.tenant(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.profile
    ADD CONSTRAINT profile_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES public.tenant(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.queue_minute_stats
    ADD CONSTRAINT queue_minute_stats_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES public.tenant(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.rate_limit_bucket
    ADD CONSTRAINT rate_limit_bucket_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES public.tenant(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.source
    ADD CONSTRAINT source_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES public.tenant(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.source
    ADD CONSTRAINT source_tenant_id_job_id_fkey FOREIGN KEY (tenant_id, job_id) REFERENCES public.acquisition_job(tenant_id, id) ON DELETE CASCADE;

ALTER TABLE ONLY public.task
    ADD CONSTRAINT task_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES public.tenant(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.tenant_address
    ADD CONSTRAINT tenant_address_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES public.tenant(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.tenant_admin
    ADD CONSTRAINT tenant_admin_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES public.tenant(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.tenant
    ADD CONSTRAINT tenant_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organization(id);

ALTER TABLE ONLY public.tolerance
    ADD CONSTRAINT tolerance_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES public.tenant(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.user_block
    ADD CONSTRAINT user_block_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES public.tenant(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.user_block
    ADD CONSTRAINT user_block_user_id_fkey FOREIGN KEY (user_id) REFERENCES public.profile(user_id) ON DELETE CASCADE;

ALTER TABLE ONLY public.variance_decision
    ADD CONSTRAINT variance_decision_tenant_id_document_id_fkey FOREIGN KEY (tenant_id, document_id) REFERENCES public.document(tenant_id, id) ON DELETE CASCADE;

ALTER TABLE ONLY public.work_attempt
    ADD CONSTRAINT work_attempt_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES public.tenant(id) ON DELETE CASCADE;

ALTER TABLE public.acquisition_job ENABLE ROW LEVEL SECURITY;

CREATE POLICY api ON public.person TO counterfoil_api USING ((NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text) IS NULL)) WITH CHECK ((NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text) IS NULL));

ALTER TABLE public.audit_entry ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.audit_head ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.chat_message ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.chat_session ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.cluster_diagnostics ENABLE ROW LEVEL SECURITY;

CREATE POLICY cross_tenant ON public.rate_limit_bucket TO counterfoil_delivery USING ((tenant_id IS NULL)) WITH CHECK ((tenant_id IS NULL));

ALTER TABLE public.dead_letter ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.dead_letter_audit ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.dead_letter_count ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.dead_letter_group ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.dead_letter_word ENABLE ROW LEVEL SECURITY;

CREATE POLICY delivery ON public.acquisition_job TO counterfoil_delivery USING (true) WITH CHECK (true);

CREATE POLICY delivery ON public.chat_message FOR SELECT TO counterfoil_delivery USING (true);

CREATE POLICY delivery ON public.cluster_diagnostics TO counterfoil_delivery USING (true) WITH CHECK (true);

CREATE POLICY delivery ON public.dead_letter TO counterfoil_delivery USING (true) WITH CHECK (true);

CREATE POLICY delivery ON public.dead_letter_audit TO counterfoil_delivery USING (true) WITH CHECK (true);

CREATE POLICY delivery ON public.dead_letter_count TO counterfoil_delivery USING (true) WITH CHECK (true);

CREATE POLICY delivery ON public.dead_letter_group TO counterfoil_delivery USING (true) WITH CHECK (true);

CREATE POLICY delivery ON public.dead_letter_word TO counterfoil_delivery USING (true) WITH CHECK (true);

CREATE POLICY delivery ON public.destination FOR SELECT TO counterfoil_delivery USING (true);

CREATE POLICY delivery ON public.document TO counterfoil_delivery USING (true) WITH CHECK (true);

CREATE POLICY delivery ON public.document_deletion FOR SELECT TO counterfoil_delivery USING (true);

CREATE POLICY delivery ON public.document_review TO counterfoil_delivery USING (true) WITH CHECK (true);

CREATE POLICY delivery ON public.failure_event TO counterfoil_delivery USING (true) WITH CHECK (true);

CREATE POLICY delivery ON public.finished_work TO counterfoil_delivery USING (true) WITH CHECK (true);

CREATE POLICY delivery ON public.ingestion_job TO counterfoil_delivery USING (true) WITH CHECK (true);

CREATE POLICY delivery ON public.offer_pool FOR SELECT TO counterfoil_delivery USING (true);

CREATE POLICY delivery ON public.offer_shard TO counterfoil_delivery USING (true) WITH CHECK (true);

CREATE POLICY delivery ON public.operation FOR SELECT TO counterfoil_delivery USING (true);

CREATE POLICY delivery ON public.outbox TO counterfoil_delivery USING (true) WITH CHECK (true);

CREATE POLICY delivery ON public.output_job TO counterfoil_delivery USING (true) WITH CHECK (true);

CREATE POLICY delivery ON public.queue_minute_stats TO counterfoil_delivery USING (true) WITH CHECK (true);

CREATE POLICY delivery ON public.source FOR SELECT TO counterfoil_delivery USING (true);

CREATE POLICY delivery ON public.task TO counterfoil_delivery USING (true) WITH CHECK (true);

CREATE POLICY delivery ON public.tenant FOR SELECT TO counterfoil_delivery USING (true);

CREATE POLICY delivery ON public.tenant_address FOR SELECT TO counterfoil_delivery USING (true);

CREATE POLICY delivery ON public.work_attempt FOR INSERT TO counterfoil_delivery WITH CHECK (true);

CREATE POLICY delivery_select ON public.work_attempt FOR SELECT TO counterfoil_delivery USING (true);

ALTER TABLE public.destination ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.destination_secret ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.document ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.document_deletion ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.document_duplicate_file ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.document_embedding ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.document_key ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.document_match ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.document_replacement ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.document_review ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.document_word ENABLE ROW LEVEL SECURITY;

CREATE POLICY due ON public.payload_deletion TO counterfoil_maintenance USING ((due_at < now())) WITH CHECK (false);

CREATE POLICY erasure ON public.acquisition_job TO counterfoil_owner USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY erasure ON public.audit_entry TO counterfoil_owner USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY erasure ON public.audit_head TO counterfoil_owner USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY erasure ON public.chat_message TO counterfoil_owner USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY erasure ON public.chat_session TO counterfoil_owner USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY erasure ON public.cluster_diagnostics TO counterfoil_owner USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY erasure ON public.dead_letter TO counterfoil_owner USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY erasure ON public.dead_letter_audit TO counterfoil_owner USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY erasure ON public.dead_letter_count TO counterfoil_owner USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY erasure ON public.dead_letter_group TO counterfoil_owner USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY erasure ON public.dead_letter_word TO counterfoil_owner USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY erasure ON public.destination TO counterfoil_owner USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY erasure ON public.destination_secret TO counterfoil_owner USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY erasure ON public.document TO counterfoil_owner USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY erasure ON public.document_deletion TO counterfoil_owner USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY erasure ON public.document_duplicate_file TO counterfoil_owner USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY erasure ON public.document_embedding TO counterfoil_owner USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY erasure ON public.document_key TO counterfoil_owner USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY erasure ON public.document_match TO counterfoil_owner USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY erasure ON public.document_replacement TO counterfoil_owner USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY erasure ON public.document_review TO counterfoil_owner USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY erasure ON public.document_word TO counterfoil_owner USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY erasure ON public.failure_event TO counterfoil_owner USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY erasure ON public.finished_work TO counterfoil_owner USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY erasure ON public.ingestion_job TO counterfoil_owner USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY erasure ON public.key_deletion TO counterfoil_owner USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY erasure ON public.llm_call TO counterfoil_owner USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY erasure ON public.llm_daily_usage TO counterfoil_owner USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY erasure ON public.llm_judgment TO counterfoil_owner USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY erasure ON public.llm_judgment_candidate TO counterfoil_owner USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY erasure ON public.match_decision TO counterfoil_owner USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY erasure ON public.matchmaking_jobs TO counterfoil_owner USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY erasure ON public.notification_delivery TO counterfoil_owner USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY erasure ON public.notification_digest TO counterfoil_owner USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY erasure ON public.offer_pool TO counterfoil_owner USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY erasure ON public.offer_shard TO counterfoil_owner USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY erasure ON public.offers TO counterfoil_owner USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY erasure ON public.operation TO counterfoil_owner USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY erasure ON public.operation_item TO counterfoil_owner USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY erasure ON public.outbox TO counterfoil_owner USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY erasure ON public.output_job TO counterfoil_owner USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY erasure ON public.page_reading_cache TO counterfoil_owner USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY erasure ON public.payload_deletion TO counterfoil_owner USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY erasure ON public.person TO counterfoil_owner USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY erasure ON public.profile TO counterfoil_owner USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY erasure ON public.queue_minute_stats TO counterfoil_owner USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY erasure ON public.rate_limit_bucket TO counterfoil_owner USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY erasure ON public.source TO counterfoil_owner USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY erasure ON public.task TO counterfoil_owner USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY erasure ON public.tenant_address TO counterfoil_owner USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY erasure ON public.tenant_admin TO counterfoil_owner USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY erasure ON public.tolerance TO counterfoil_owner USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY erasure ON public.user_block TO counterfoil_owner USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY erasure ON public.variance_decision TO counterfoil_owner USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY erasure ON public.work_attempt TO counterfoil_owner USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY erasure_shared ON public.acquisition_job FOR SELECT TO counterfoil_owner USING (true);

CREATE POLICY erasure_unassigned ON public.acquisition_job FOR UPDATE TO counterfoil_owner USING (((tenant_id IS NULL) OR (skip_reason = 'The file was erased.'::text))) WITH CHECK ((skip_reason = 'The file was erased.'::text));

ALTER TABLE public.failure_event ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.finished_work ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.ingestion_job ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.key_deletion ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.llm_call ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.llm_daily_usage ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.llm_judgment ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.llm_judgment_candidate ENABLE ROW LEVEL SECURITY;

CREATE POLICY maintenance ON public.notification_delivery TO counterfoil_maintenance USING (true) WITH CHECK (true);

CREATE POLICY maintenance ON public.notification_digest TO counterfoil_maintenance USING (true) WITH CHECK (true);

CREATE POLICY maintenance ON public.tenant_admin TO counterfoil_maintenance USING (true) WITH CHECK (true);

ALTER TABLE public.match_decision ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.matchmaking_jobs ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.notification_delivery ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.notification_digest ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.offer_pool ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.offer_shard ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.offers ENABLE ROW LEVEL SECURITY;

CREATE POLICY onboarding ON public.destination TO counterfoil_owner USING (true) WITH CHECK (true);

CREATE POLICY onboarding ON public.destination_secret TO counterfoil_owner USING (true) WITH CHECK (true);

CREATE POLICY onboarding ON public.output_job TO counterfoil_owner USING (true) WITH CHECK (true);

CREATE POLICY onboarding ON public.tenant TO counterfoil_owner USING (true) WITH CHECK (true);

CREATE POLICY onboarding ON public.tenant_address TO counterfoil_owner USING (true) WITH CHECK (true);

CREATE POLICY onboarding ON public.tenant_admin TO counterfoil_owner USING (true) WITH CHECK (true);

CREATE POLICY onboarding ON public.tolerance TO counterfoil_owner USING (true) WITH CHECK (true);

ALTER TABLE public.operation ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.operation_item ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.outbox ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.output_job ENABLE ROW LEVEL SECURITY;

CREATE POLICY own_tenant ON public.acquisition_job TO counterfoil_worker USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY own_tenant ON public.audit_entry TO counterfoil_worker USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY own_tenant ON public.audit_head TO counterfoil_worker USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY own_tenant ON public.chat_message TO counterfoil_worker USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY own_tenant ON public.chat_session TO counterfoil_worker USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY own_tenant ON public.cluster_diagnostics TO counterfoil_worker USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY own_tenant ON public.dead_letter TO counterfoil_worker USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY own_tenant ON public.dead_letter_audit TO counterfoil_worker USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY own_tenant ON public.dead_letter_count TO counterfoil_worker USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY own_tenant ON public.dead_letter_group TO counterfoil_worker USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY own_tenant ON public.dead_letter_word TO counterfoil_worker USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY own_tenant ON public.destination TO counterfoil_worker USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY own_tenant ON public.destination_secret TO counterfoil_worker USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY own_tenant ON public.document TO counterfoil_worker USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY own_tenant ON public.document_deletion TO counterfoil_worker USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY own_tenant ON public.document_duplicate_file TO counterfoil_worker USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY own_tenant ON public.document_embedding TO counterfoil_worker USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY own_tenant ON public.document_key TO counterfoil_worker USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY own_tenant ON public.document_match TO counterfoil_worker USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY own_tenant ON public.document_replacement TO counterfoil_worker USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY own_tenant ON public.document_review TO counterfoil_worker USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY own_tenant ON public.document_word FOR SELECT TO counterfoil_worker USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY own_tenant ON public.failure_event TO counterfoil_worker USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY own_tenant ON public.finished_work TO counterfoil_worker USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY own_tenant ON public.ingestion_job TO counterfoil_worker USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY own_tenant ON public.key_deletion TO counterfoil_worker USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY own_tenant ON public.llm_call TO counterfoil_worker USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY own_tenant ON public.llm_daily_usage TO counterfoil_worker USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY own_tenant ON public.llm_judgment TO counterfoil_worker USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY own_tenant ON public.llm_judgment_candidate TO counterfoil_worker USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY own_tenant ON public.match_decision TO counterfoil_worker USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY own_tenant ON public.matchmaking_jobs TO counterfoil_worker USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY own_tenant ON public.notification_delivery FOR SELECT TO counterfoil_worker USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY own_tenant ON public.notification_digest FOR SELECT TO counterfoil_worker USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY own_tenant ON public.offer_pool TO counterfoil_worker USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY own_tenant ON public.offer_shard TO counterfoil_worker USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY own_tenant ON public.offers TO counterfoil_worker USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY own_tenant ON public.operation TO counterfoil_worker USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY own_tenant ON public.operation_item TO counterfoil_worker USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY own_tenant ON public.outbox TO counterfoil_worker USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY own_tenant ON public.output_job TO counterfoil_worker USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY own_tenant ON public.page_reading_cache TO counterfoil_worker USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY own_tenant ON public.payload_deletion TO counterfoil_worker USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY own_tenant ON public.person TO counterfoil_worker USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY own_tenant ON public.profile TO counterfoil_worker USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY own_tenant ON public.queue_minute_stats TO counterfoil_worker USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY own_tenant ON public.rate_limit_bucket TO counterfoil_worker USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY own_tenant ON public.source TO counterfoil_worker USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY own_tenant ON public.task TO counterfoil_worker USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY own_tenant ON public.tenant FOR SELECT TO counterfoil_worker USING ((id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY own_tenant ON public.tenant_address FOR SELECT TO counterfoil_worker USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY own_tenant ON public.tenant_admin FOR SELECT TO counterfoil_worker USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY own_tenant ON public.tolerance TO counterfoil_worker USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY own_tenant ON public.user_block TO counterfoil_worker USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY own_tenant ON public.variance_decision TO counterfoil_worker USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY own_tenant ON public.work_attempt TO counterfoil_worker USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY own_tenant_settings ON public.tenant FOR UPDATE TO counterfoil_worker USING ((id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY owner_all ON public.audit_head TO counterfoil_owner USING (true) WITH CHECK (true);

CREATE POLICY owner_all ON public.document_word TO counterfoil_owner USING (true) WITH CHECK (true);

CREATE POLICY owner_all ON public.matchmaking_jobs TO counterfoil_owner USING (true) WITH CHECK (true);

CREATE POLICY owner_all ON public.offer_shard TO counterfoil_owner USING (true) WITH CHECK (true);

CREATE POLICY owner_all ON public.offers TO counterfoil_owner USING (true) WITH CHECK (true);

CREATE POLICY owner_insert ON public.audit_entry FOR INSERT TO counterfoil_owner WITH CHECK (true);

CREATE POLICY owner_insert ON public.payload_deletion FOR INSERT TO counterfoil_owner WITH CHECK (true);

CREATE POLICY owner_own_tenant ON public.dead_letter TO counterfoil_owner USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY owner_own_tenant ON public.dead_letter_audit TO counterfoil_owner USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY owner_own_tenant ON public.dead_letter_count TO counterfoil_owner USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY owner_own_tenant ON public.dead_letter_group TO counterfoil_owner USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY owner_own_tenant ON public.dead_letter_word TO counterfoil_owner USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY owner_own_tenant ON public.outbox TO counterfoil_owner USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY owner_select ON public.chat_message FOR SELECT TO counterfoil_owner USING (true);

CREATE POLICY owner_select ON public.outbox FOR SELECT TO counterfoil_owner USING (true);

CREATE POLICY owner_select ON public.task FOR SELECT TO counterfoil_owner USING (true);

CREATE POLICY owner_select ON public.work_attempt FOR SELECT TO counterfoil_owner USING (true);

CREATE POLICY owner_update ON public.task FOR UPDATE TO counterfoil_owner USING (true) WITH CHECK (((payload_s3_key IS NULL) AND (result IS NULL)));

ALTER TABLE public.page_reading_cache ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.payload_deletion ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.person ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.profile ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.queue_minute_stats ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.rate_limit_bucket ENABLE ROW LEVEL SECURITY;

CREATE POLICY removal ON public.document TO counterfoil_owner USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY removal ON public.document_deletion TO counterfoil_owner USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY removal ON public.document_duplicate_file TO counterfoil_owner USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY retention ON public.chat_session TO counterfoil_maintenance USING ((last_used_at < (now() - '90 days'::interval))) WITH CHECK (false);

CREATE POLICY retention ON public.dead_letter AS RESTRICTIVE FOR DELETE TO counterfoil_maintenance USING (((status <> 'pending'::text) AND ((purged_at < (now() - '7 days'::interval)) OR (purged_at IS NULL))));

CREATE POLICY retention ON public.llm_call TO counterfoil_maintenance USING ((created_at < (now() - '400 days'::interval))) WITH CHECK (false);

CREATE POLICY retention ON public.matchmaking_jobs TO counterfoil_maintenance USING ((date < (now() - '90 days'::interval))) WITH CHECK (false);

CREATE POLICY retention ON public.offer_pool FOR DELETE TO counterfoil_maintenance USING ((date < (now() - '90 days'::interval)));

CREATE POLICY retention ON public.operation FOR DELETE TO counterfoil_maintenance USING ((ended_at < (now() - '90 days'::interval)));

CREATE POLICY retention ON public.operation_item TO counterfoil_maintenance USING ((EXISTS ( SELECT
   FROM public.operation o
  WHERE ((o.id = operation_item.operation_id) AND (o.ended_at < (now() - '90 days'::interval)))))) WITH CHECK (false);

CREATE POLICY retention ON public.task AS RESTRICTIVE FOR DELETE TO counterfoil_maintenance USING (((status = 'failed'::text) OR (((status = 'succeeded'::text) OR (status IS NULL)) AND (ended_at < (now() - '90 days'::interval)))));

CREATE POLICY retention ON public.work_attempt TO counterfoil_maintenance USING ((ended_at < (now() - '90 days'::interval))) WITH CHECK (false);

CREATE POLICY setup ON public.tenant_address TO counterfoil_api USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY setup ON public.tenant_admin TO counterfoil_api USING ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text))::uuid));

CREATE POLICY setup_add ON public.tenant FOR INSERT TO counterfoil_api WITH CHECK ((NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text) IS NULL));

CREATE POLICY setup_list ON public.tenant FOR SELECT TO counterfoil_api USING ((NULLIF(current_setting('counterfoil.tenant'::text, true), ''::text) IS NULL));

ALTER TABLE public.source ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.task ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.tenant ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.tenant_address ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.tenant_admin ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.tolerance ENABLE ROW LEVEL SECURITY;

CREATE POLICY unassigned ON public.audit_entry TO counterfoil_delivery USING ((tenant_id IS NULL)) WITH CHECK ((tenant_id IS NULL));

CREATE POLICY unassigned ON public.audit_head TO counterfoil_delivery USING ((tenant_id IS NULL)) WITH CHECK ((tenant_id IS NULL));

CREATE POLICY unassigned ON public.llm_call FOR INSERT TO counterfoil_delivery WITH CHECK ((tenant_id IS NULL));

ALTER TABLE public.user_block ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.variance_decision ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.work_attempt ENABLE ROW LEVEL SECURITY;

GRANT ALL ON SCHEMA public TO counterfoil_owner;

REVOKE ALL ON FUNCTION public.append_audit_head() FROM PUBLIC;

REVOKE ALL ON FUNCTION public.begin_object_erasure(erasure_id uuid, at timestamp with time zone, OUT before timestamp with time zone, OUT needed text[]) FROM PUBLIC;
GRANT ALL ON FUNCTION public.begin_object_erasure(erasure_id uuid, at timestamp with time zone, OUT before timestamp with time zone, OUT needed text[]) TO counterfoil_maintenance;

REVOKE ALL ON FUNCTION public.begin_tenant_erasure(erased_slug text, at timestamp with time zone, OUT hash bytea, OUT chain_number bigint, OUT chain_hash bytea) FROM PUBLIC;
GRANT ALL ON FUNCTION public.begin_tenant_erasure(erased_slug text, at timestamp with time zone, OUT hash bytea, OUT chain_number bigint, OUT chain_hash bytea) TO counterfoil_delivery;

REVOKE ALL ON FUNCTION public.clear_expired_pools(max_rows integer) FROM PUBLIC;
GRANT ALL ON FUNCTION public.clear_expired_pools(max_rows integer) TO counterfoil_maintenance;

REVOKE ALL ON FUNCTION public.count_duplicate_offers(since timestamp with time zone) FROM PUBLIC;
GRANT ALL ON FUNCTION public.count_duplicate_offers(since timestamp with time zone) TO counterfoil_delivery;

REVOKE ALL ON FUNCTION public.delete_documents(ids uuid[], by text, deletion_reason text, successor uuid, at timestamp with time zone) FROM PUBLIC;
GRANT ALL ON FUNCTION public.delete_documents(ids uuid[], by text, deletion_reason text, successor uuid, at timestamp with time zone) TO counterfoil_worker;

REVOKE ALL ON FUNCTION public.delete_orphaned_offers() FROM PUBLIC;

REVOKE ALL ON FUNCTION public.end_object_erasure(erasure_id uuid, at timestamp with time zone) FROM PUBLIC;
GRANT ALL ON FUNCTION public.end_object_erasure(erasure_id uuid, at timestamp with time zone) TO counterfoil_maintenance;

REVOKE ALL ON FUNCTION public.enqueue_payload_deletion() FROM PUBLIC;

REVOKE ALL ON FUNCTION public.erase_dead_letters(job_ids uuid[]) FROM PUBLIC;
GRANT ALL ON FUNCTION public.erase_dead_letters(job_ids uuid[]) TO counterfoil_worker;

REVOKE ALL ON FUNCTION public.erase_documents(ids uuid[], at timestamp with time zone, stale_until timestamp with time zone, OUT jobs uuid[], OUT retained integer) FROM PUBLIC;
GRANT ALL ON FUNCTION public.erase_documents(ids uuid[], at timestamp with time zone, stale_until timestamp with time zone, OUT jobs uuid[], OUT retained integer) TO counterfoil_worker;

REVOKE ALL ON FUNCTION public.erase_late_uploads(buckets text[], keys text[], slugs text[], at timestamp with time zone) FROM PUBLIC;
GRANT ALL ON FUNCTION public.erase_late_uploads(buckets text[], keys text[], slugs text[], at timestamp with time zone) TO counterfoil_delivery;

REVOKE ALL ON FUNCTION public.erase_llm_judgments(ids uuid[]) FROM PUBLIC;
GRANT ALL ON FUNCTION public.erase_llm_judgments(ids uuid[]) TO counterfoil_worker;

REVOKE ALL ON FUNCTION public.erase_tenant(erased_tenant_id uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION public.erase_tenant(erased_tenant_id uuid) TO counterfoil_maintenance;

REVOKE ALL ON FUNCTION public.erase_tenant_rows(erased_tenant_id uuid, target_table name, max_rows integer) FROM PUBLIC;
GRANT ALL ON FUNCTION public.erase_tenant_rows(erased_tenant_id uuid, target_table name, max_rows integer) TO counterfoil_maintenance;

REVOKE ALL ON FUNCTION public.find_tenant_erasure(erased_slug text, OUT requested_at timestamp with time zone, OUT row_count bigint, OUT object_count bigint, OUT finished_at timestamp with time zone) FROM PUBLIC;
GRANT ALL ON FUNCTION public.find_tenant_erasure(erased_slug text, OUT requested_at timestamp with time zone, OUT row_count bigint, OUT object_count bigint, OUT finished_at timestamp with time zone) TO counterfoil_delivery;
GRANT ALL ON FUNCTION public.find_tenant_erasure(erased_slug text, OUT requested_at timestamp with time zone, OUT row_count bigint, OUT object_count bigint, OUT finished_at timestamp with time zone) TO counterfoil_api;

REVOKE ALL ON FUNCTION public.hash_of_slug(slug text) FROM PUBLIC;
GRANT ALL ON FUNCTION public.hash_of_slug(slug text) TO counterfoil_delivery;

REVOKE ALL ON FUNCTION public.index_document_words() FROM PUBLIC;

REVOKE ALL ON FUNCTION public.needed_versions(file_bucket text, file_key text, ids uuid[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION public.on_ingestion_status_change() FROM PUBLIC;

REVOKE ALL ON FUNCTION public.on_matching_status_change() FROM PUBLIC;

REVOKE ALL ON FUNCTION public.promote_duplicate_file(removed_file_id uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION public.promote_duplicate_file(removed_file_id uuid) TO counterfoil_worker;

REVOKE ALL ON FUNCTION public.record_stage_change(changed_tenant uuid, changed_document uuid, changed_stage text, new_state text, change_reason text) FROM PUBLIC;

REVOKE ALL ON FUNCTION public.reject_audit_change() FROM PUBLIC;

REVOKE ALL ON FUNCTION public.scrub_chat_tasks() FROM PUBLIC;

REVOKE ALL ON FUNCTION public.sync_matchmaking_jobs() FROM PUBLIC;

REVOKE ALL ON FUNCTION public.task_messages(ids uuid[]) FROM PUBLIC;
GRANT ALL ON FUNCTION public.task_messages(ids uuid[]) TO counterfoil_delivery;

REVOKE ALL ON FUNCTION public.tenant_tables() FROM PUBLIC;
GRANT ALL ON FUNCTION public.tenant_tables() TO counterfoil_maintenance;

REVOKE ALL ON FUNCTION public.unassigned_attempts(worker_name text, work_item_id uuid, max_rows integer) FROM PUBLIC;
GRANT ALL ON FUNCTION public.unassigned_attempts(worker_name text, work_item_id uuid, max_rows integer) TO counterfoil_delivery;

GRANT SELECT ON TABLE public.acquisition_job TO counterfoil_worker;

GRANT SELECT(id),INSERT(id) ON TABLE public.acquisition_job TO counterfoil_delivery;

GRANT SELECT(tenant_id),INSERT(tenant_id),UPDATE(tenant_id) ON TABLE public.acquisition_job TO counterfoil_delivery;

GRANT SELECT(bucket),INSERT(bucket) ON TABLE public.acquisition_job TO counterfoil_delivery;

GRANT SELECT(key),INSERT(key) ON TABLE public.acquisition_job TO counterfoil_delivery;

GRANT SELECT(version),INSERT(version) ON TABLE public.acquisition_job TO counterfoil_delivery;

GRANT SELECT(sequencer),INSERT(sequencer),UPDATE(sequencer) ON TABLE public.acquisition_job TO counterfoil_delivery;

GRANT SELECT(size),INSERT(size) ON TABLE public.acquisition_job TO counterfoil_delivery;

GRANT SELECT(created_at),INSERT(created_at) ON TABLE public.acquisition_job TO counterfoil_delivery;

GRANT UPDATE(status) ON TABLE public.acquisition_job TO counterfoil_worker;
GRANT SELECT(status),UPDATE(status) ON TABLE public.acquisition_job TO counterfoil_delivery;

GRANT UPDATE(error) ON TABLE public.acquisition_job TO counterfoil_worker;
GRANT SELECT(error),UPDATE(error) ON TABLE public.acquisition_job TO counterfoil_delivery;

GRANT UPDATE(attempts) ON TABLE public.acquisition_job TO counterfoil_worker;
GRANT SELECT(attempts),UPDATE(attempts) ON TABLE public.acquisition_job TO counterfoil_delivery;

GRANT UPDATE(failed_at) ON TABLE public.acquisition_job TO counterfoil_worker;
GRANT SELECT(failed_at),UPDATE(failed_at) ON TABLE public.acquisition_job TO counterfoil_delivery;

GRANT UPDATE(revision) ON TABLE public.acquisition_job TO counterfoil_worker;
GRANT SELECT(revision),UPDATE(revision) ON TABLE public.acquisition_job TO counterfoil_delivery;

GRANT UPDATE(claim_token) ON TABLE public.acquisition_job TO counterfoil_worker;
GRANT SELECT(claim_token),UPDATE(claim_token) ON TABLE public.acquisition_job TO counterfoil_delivery;

GRANT UPDATE(claimed_at) ON TABLE public.acquisition_job TO counterfoil_worker;
GRANT SELECT(claimed_at),UPDATE(claimed_at) ON TABLE public.acquisition_job TO counterfoil_delivery;

GRANT UPDATE(lease_expires_at) ON TABLE public.acquisition_job TO counterfoil_worker;
GRANT SELECT(lease_expires_at),UPDATE(lease_expires_at) ON TABLE public.acquisition_job TO counterfoil_delivery;

GRANT UPDATE(next_attempt_at) ON TABLE public.acquisition_job TO counterfoil_worker;
GRANT SELECT(next_attempt_at),UPDATE(next_attempt_at) ON TABLE public.acquisition_job TO counterfoil_delivery;

GRANT UPDATE(send_number) ON TABLE public.acquisition_job TO counterfoil_worker;
GRANT SELECT(send_number),UPDATE(send_number) ON TABLE public.acquisition_job TO counterfoil_delivery;

GRANT UPDATE(dlq_returns) ON TABLE public.acquisition_job TO counterfoil_worker;
GRANT SELECT(dlq_returns),UPDATE(dlq_returns) ON TABLE public.acquisition_job TO counterfoil_delivery;

GRANT UPDATE(skip_reason) ON TABLE public.acquisition_job TO counterfoil_worker;
GRANT SELECT(skip_reason),UPDATE(skip_reason) ON TABLE public.acquisition_job TO counterfoil_delivery;

GRANT SELECT,INSERT ON TABLE public.audit_entry TO counterfoil_worker;
GRANT SELECT,INSERT ON TABLE public.audit_entry TO counterfoil_delivery;

GRANT SELECT ON TABLE public.audit_head TO counterfoil_worker;
GRANT SELECT ON TABLE public.audit_head TO counterfoil_delivery;

GRANT SELECT ON TABLE public.audit_salt_global TO counterfoil_delivery;

GRANT SELECT,INSERT,UPDATE ON TABLE public.breaker TO counterfoil_delivery;

GRANT SELECT,INSERT,UPDATE ON TABLE public.breaker_mapping_pause TO counterfoil_delivery;

GRANT SELECT,INSERT ON TABLE public.chat_message TO counterfoil_worker;

GRANT SELECT(tenant_id) ON TABLE public.chat_message TO counterfoil_delivery;

GRANT SELECT(session_id) ON TABLE public.chat_message TO counterfoil_delivery;

GRANT SELECT(number) ON TABLE public.chat_message TO counterfoil_delivery;

GRANT SELECT(role) ON TABLE public.chat_message TO counterfoil_delivery;

GRANT SELECT(job_id) ON TABLE public.chat_message TO counterfoil_delivery;

GRANT SELECT,INSERT,DELETE ON TABLE public.chat_session TO counterfoil_worker;
GRANT DELETE ON TABLE public.chat_session TO counterfoil_maintenance;

GRANT SELECT(id) ON TABLE public.chat_session TO counterfoil_maintenance;

GRANT UPDATE(last_number) ON TABLE public.chat_session TO counterfoil_worker;

GRANT UPDATE(last_used_at) ON TABLE public.chat_session TO counterfoil_worker;
GRANT SELECT(last_used_at) ON TABLE public.chat_session TO counterfoil_maintenance;

GRANT USAGE ON SEQUENCE public.claim_token TO counterfoil_worker;
GRANT USAGE ON SEQUENCE public.claim_token TO counterfoil_delivery;

GRANT SELECT,INSERT ON TABLE public.cluster_diagnostics TO counterfoil_worker;

GRANT SELECT(id) ON TABLE public.cluster_diagnostics TO counterfoil_delivery;

GRANT SELECT(tenant_id) ON TABLE public.cluster_diagnostics TO counterfoil_delivery;

GRANT SELECT(created_at) ON TABLE public.cluster_diagnostics TO counterfoil_delivery;

GRANT UPDATE(match_status) ON TABLE public.cluster_diagnostics TO counterfoil_worker;

GRANT UPDATE(result) ON TABLE public.cluster_diagnostics TO counterfoil_worker;

GRANT UPDATE(computed_at) ON TABLE public.cluster_diagnostics TO counterfoil_worker;

GRANT UPDATE(status) ON TABLE public.cluster_diagnostics TO counterfoil_worker;
GRANT SELECT(status),UPDATE(status) ON TABLE public.cluster_diagnostics TO counterfoil_delivery;

GRANT UPDATE(error) ON TABLE public.cluster_diagnostics TO counterfoil_worker;
GRANT SELECT(error),UPDATE(error) ON TABLE public.cluster_diagnostics TO counterfoil_delivery;

GRANT UPDATE(attempts) ON TABLE public.cluster_diagnostics TO counterfoil_worker;
GRANT SELECT(attempts),UPDATE(attempts) ON TABLE public.cluster_diagnostics TO counterfoil_delivery;

GRANT UPDATE(failed_at) ON TABLE public.cluster_diagnostics TO counterfoil_worker;
GRANT SELECT(failed_at),UPDATE(failed_at) ON TABLE public.cluster_diagnostics TO counterfoil_delivery;

GRANT UPDATE(revision) ON TABLE public.cluster_diagnostics TO counterfoil_worker;
GRANT SELECT(revision),UPDATE(revision) ON TABLE public.cluster_diagnostics TO counterfoil_delivery;

GRANT UPDATE(claim_token) ON TABLE public.cluster_diagnostics TO counterfoil_worker;
GRANT SELECT(claim_token),UPDATE(claim_token) ON TABLE public.cluster_diagnostics TO counterfoil_delivery;

GRANT UPDATE(claimed_at) ON TABLE public.cluster_diagnostics TO counterfoil_worker;
GRANT SELECT(claimed_at),UPDATE(claimed_at) ON TABLE public.cluster_diagnostics TO counterfoil_delivery;

GRANT UPDATE(lease_expires_at) ON TABLE public.cluster_diagnostics TO counterfoil_worker;
GRANT SELECT(lease_expires_at),UPDATE(lease_expires_at) ON TABLE public.cluster_diagnostics TO counterfoil_delivery;

GRANT UPDATE(next_attempt_at) ON TABLE public.cluster_diagnostics TO counterfoil_worker;
GRANT SELECT(next_attempt_at),UPDATE(next_attempt_at) ON TABLE public.cluster_diagnostics TO counterfoil_delivery;

GRANT UPDATE(send_number) ON TABLE public.cluster_diagnostics TO counterfoil_worker;
GRANT SELECT(send_number),UPDATE(send_number) ON TABLE public.cluster_diagnostics TO counterfoil_delivery;

GRANT UPDATE(dlq_returns) ON TABLE public.cluster_diagnostics TO counterfoil_worker;
GRANT SELECT(dlq_returns),UPDATE(dlq_returns) ON TABLE public.cluster_diagnostics TO counterfoil_delivery;

GRANT UPDATE(skip_reason) ON TABLE public.cluster_diagnostics TO counterfoil_worker;
GRANT SELECT(skip_reason),UPDATE(skip_reason) ON TABLE public.cluster_diagnostics TO counterfoil_delivery;

GRANT UPDATE(cluster_status) ON TABLE public.cluster_diagnostics TO counterfoil_worker;

GRANT UPDATE(supplier) ON TABLE public.cluster_diagnostics TO counterfoil_worker;

GRANT UPDATE(supplier_key) ON TABLE public.cluster_diagnostics TO counterfoil_worker;

GRANT UPDATE(order_numbers) ON TABLE public.cluster_diagnostics TO counterfoil_worker;

GRANT UPDATE(currency) ON TABLE public.cluster_diagnostics TO counterfoil_worker;

GRANT UPDATE(amount_ordered) ON TABLE public.cluster_diagnostics TO counterfoil_worker;

GRANT UPDATE(amount_delivered) ON TABLE public.cluster_diagnostics TO counterfoil_worker;

GRANT UPDATE(amount_billed) ON TABLE public.cluster_diagnostics TO counterfoil_worker;

GRANT UPDATE(amount_affected) ON TABLE public.cluster_diagnostics TO counterfoil_worker;

GRANT UPDATE(waiting_since) ON TABLE public.cluster_diagnostics TO counterfoil_worker;

GRANT UPDATE(documents) ON TABLE public.cluster_diagnostics TO counterfoil_worker;

GRANT SELECT,INSERT,UPDATE ON TABLE public.dead_letter TO counterfoil_worker;
GRANT SELECT,INSERT,UPDATE ON TABLE public.dead_letter TO counterfoil_delivery;
GRANT DELETE ON TABLE public.dead_letter TO counterfoil_maintenance;

GRANT SELECT,INSERT ON TABLE public.dead_letter_audit TO counterfoil_worker;
GRANT SELECT,INSERT ON TABLE public.dead_letter_audit TO counterfoil_delivery;

GRANT SELECT,INSERT ON TABLE public.dead_letter_count TO counterfoil_worker;
GRANT SELECT,INSERT ON TABLE public.dead_letter_count TO counterfoil_delivery;
GRANT DELETE ON TABLE public.dead_letter_count TO counterfoil_maintenance;

GRANT SELECT,INSERT ON TABLE public.dead_letter_group TO counterfoil_worker;
GRANT SELECT,INSERT ON TABLE public.dead_letter_group TO counterfoil_delivery;

GRANT UPDATE(closed_as) ON TABLE public.dead_letter_group TO counterfoil_worker;

GRANT UPDATE(closed_at) ON TABLE public.dead_letter_group TO counterfoil_worker;

GRANT SELECT,INSERT,DELETE ON TABLE public.dead_letter_word TO counterfoil_worker;
GRANT SELECT,INSERT,DELETE ON TABLE public.dead_letter_word TO counterfoil_delivery;

GRANT UPDATE(tenant_id) ON TABLE public.dead_letter_word TO counterfoil_delivery;

GRANT SELECT ON TABLE public.destination TO counterfoil_worker;
GRANT INSERT ON TABLE public.destination TO counterfoil_api;

GRANT SELECT(id) ON TABLE public.destination TO counterfoil_delivery;

GRANT SELECT(name) ON TABLE public.destination TO counterfoil_delivery;

GRANT UPDATE(disabled_at) ON TABLE public.destination TO counterfoil_api;

GRANT SELECT ON TABLE public.destination_secret TO counterfoil_worker;
GRANT INSERT,DELETE ON TABLE public.destination_secret TO counterfoil_api;

GRANT UPDATE(expires_at) ON TABLE public.destination_secret TO counterfoil_api;

GRANT SELECT,INSERT ON TABLE public.document TO counterfoil_worker;

GRANT SELECT(id) ON TABLE public.document TO counterfoil_delivery;

GRANT SELECT(tenant_id) ON TABLE public.document TO counterfoil_delivery;

GRANT SELECT(bucket) ON TABLE public.document TO counterfoil_delivery;

GRANT SELECT(key) ON TABLE public.document TO counterfoil_delivery;

GRANT SELECT(file_name) ON TABLE public.document TO counterfoil_delivery;

GRANT SELECT(received_at) ON TABLE public.document TO counterfoil_delivery;

GRANT UPDATE(duplicate_uploads) ON TABLE public.document TO counterfoil_worker;

GRANT UPDATE(last_duplicate_at) ON TABLE public.document TO counterfoil_worker;

GRANT UPDATE(type) ON TABLE public.document TO counterfoil_worker;

GRANT UPDATE(method) ON TABLE public.document TO counterfoil_worker;

GRANT UPDATE(structured_data) ON TABLE public.document TO counterfoil_worker;

GRANT UPDATE(cluster_id) ON TABLE public.document TO counterfoil_worker;

GRANT UPDATE(matching_status) ON TABLE public.document TO counterfoil_worker;
GRANT SELECT(matching_status),UPDATE(matching_status) ON TABLE public.document TO counterfoil_delivery;

GRANT UPDATE(matching_error) ON TABLE public.document TO counterfoil_worker;
GRANT SELECT(matching_error),UPDATE(matching_error) ON TABLE public.document TO counterfoil_delivery;

GRANT UPDATE(matching_attempts) ON TABLE public.document TO counterfoil_worker;
GRANT SELECT(matching_attempts),UPDATE(matching_attempts) ON TABLE public.document TO counterfoil_delivery;

GRANT UPDATE(matching_failed_at) ON TABLE public.document TO counterfoil_worker;
GRANT SELECT(matching_failed_at),UPDATE(matching_failed_at) ON TABLE public.document TO counterfoil_delivery;

GRANT UPDATE(matching_revision) ON TABLE public.document TO counterfoil_worker;
GRANT SELECT(matching_revision),UPDATE(matching_revision) ON TABLE public.document TO counterfoil_delivery;

GRANT UPDATE(matching_claim_token) ON TABLE public.document TO counterfoil_worker;
GRANT SELECT(matching_claim_token),UPDATE(matching_claim_token) ON TABLE public.document TO counterfoil_delivery;

GRANT UPDATE(matching_claimed_at) ON TABLE public.document TO counterfoil_worker;
GRANT SELECT(matching_claimed_at),UPDATE(matching_claimed_at) ON TABLE public.document TO counterfoil_delivery;

GRANT UPDATE(matching_lease_expires_at) ON TABLE public.document TO counterfoil_worker;
GRANT SELECT(matching_lease_expires_at),UPDATE(matching_lease_expires_at) ON TABLE public.document TO counterfoil_delivery;

GRANT UPDATE(matching_next_attempt_at) ON TABLE public.document TO counterfoil_worker;
GRANT SELECT(matching_next_attempt_at),UPDATE(matching_next_attempt_at) ON TABLE public.document TO counterfoil_delivery;

GRANT UPDATE(matching_send_number) ON TABLE public.document TO counterfoil_worker;
GRANT SELECT(matching_send_number),UPDATE(matching_send_number) ON TABLE public.document TO counterfoil_delivery;

GRANT UPDATE(matching_dlq_returns) ON TABLE public.document TO counterfoil_worker;
GRANT SELECT(matching_dlq_returns),UPDATE(matching_dlq_returns) ON TABLE public.document TO counterfoil_delivery;

GRANT UPDATE(matching_skip_reason) ON TABLE public.document TO counterfoil_worker;
GRANT SELECT(matching_skip_reason),UPDATE(matching_skip_reason) ON TABLE public.document TO counterfoil_delivery;

GRANT UPDATE(evidence) ON TABLE public.document TO counterfoil_worker;

GRANT SELECT ON TABLE public.document_deletion TO counterfoil_worker;

GRANT SELECT(document_id) ON TABLE public.document_deletion TO counterfoil_delivery;

GRANT SELECT(tenant_id) ON TABLE public.document_deletion TO counterfoil_delivery;

GRANT SELECT,INSERT ON TABLE public.document_duplicate_file TO counterfoil_worker;

GRANT SELECT,INSERT ON TABLE public.document_embedding TO counterfoil_worker;

GRANT UPDATE(text_hash) ON TABLE public.document_embedding TO counterfoil_worker;

GRANT UPDATE(model) ON TABLE public.document_embedding TO counterfoil_worker;

GRANT UPDATE(signature) ON TABLE public.document_embedding TO counterfoil_worker;

GRANT UPDATE(vector) ON TABLE public.document_embedding TO counterfoil_worker;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.document_key TO counterfoil_worker;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.document_match TO counterfoil_worker;

GRANT SELECT,INSERT ON TABLE public.document_replacement TO counterfoil_worker;

GRANT UPDATE(closed_at) ON TABLE public.document_replacement TO counterfoil_worker;

GRANT UPDATE(replacement_id) ON TABLE public.document_replacement TO counterfoil_worker;

GRANT SELECT,INSERT ON TABLE public.document_review TO counterfoil_worker;

GRANT SELECT(document_id) ON TABLE public.document_review TO counterfoil_delivery;

GRANT SELECT(tenant_id) ON TABLE public.document_review TO counterfoil_delivery;

GRANT UPDATE(type) ON TABLE public.document_review TO counterfoil_worker;
GRANT SELECT(type) ON TABLE public.document_review TO counterfoil_delivery;

GRANT UPDATE(state) ON TABLE public.document_review TO counterfoil_worker;
GRANT SELECT(state) ON TABLE public.document_review TO counterfoil_delivery;

GRANT UPDATE(ambiguous_matches) ON TABLE public.document_review TO counterfoil_worker;

GRANT UPDATE(probability) ON TABLE public.document_review TO counterfoil_worker;
GRANT SELECT(probability) ON TABLE public.document_review TO counterfoil_delivery;

GRANT UPDATE(weights_version) ON TABLE public.document_review TO counterfoil_worker;

GRANT UPDATE(opened_at) ON TABLE public.document_review TO counterfoil_worker;
GRANT SELECT(opened_at) ON TABLE public.document_review TO counterfoil_delivery;

GRANT UPDATE(changed_at) ON TABLE public.document_review TO counterfoil_worker;

GRANT UPDATE(closed_at) ON TABLE public.document_review TO counterfoil_worker;

GRANT SELECT ON TABLE public.document_word TO counterfoil_worker;

GRANT SELECT,INSERT ON TABLE public.failure_event TO counterfoil_worker;
GRANT SELECT,INSERT ON TABLE public.failure_event TO counterfoil_delivery;

GRANT UPDATE(digest_id) ON TABLE public.failure_event TO counterfoil_maintenance;

GRANT SELECT,INSERT ON TABLE public.finished_work TO counterfoil_worker;
GRANT SELECT,INSERT ON TABLE public.finished_work TO counterfoil_delivery;
GRANT DELETE ON TABLE public.finished_work TO counterfoil_maintenance;

GRANT SELECT,INSERT ON TABLE public.ingestion_job TO counterfoil_worker;

GRANT SELECT(id) ON TABLE public.ingestion_job TO counterfoil_delivery;

GRANT SELECT(tenant_id) ON TABLE public.ingestion_job TO counterfoil_delivery;

GRANT SELECT(created_at) ON TABLE public.ingestion_job TO counterfoil_delivery;

GRANT UPDATE(status) ON TABLE public.ingestion_job TO counterfoil_worker;
GRANT SELECT(status),UPDATE(status) ON TABLE public.ingestion_job TO counterfoil_delivery;

GRANT UPDATE(error) ON TABLE public.ingestion_job TO counterfoil_worker;
GRANT SELECT(error),UPDATE(error) ON TABLE public.ingestion_job TO counterfoil_delivery;

GRANT UPDATE(attempts) ON TABLE public.ingestion_job TO counterfoil_worker;
GRANT SELECT(attempts),UPDATE(attempts) ON TABLE public.ingestion_job TO counterfoil_delivery;

GRANT UPDATE(failed_at) ON TABLE public.ingestion_job TO counterfoil_worker;
GRANT SELECT(failed_at),UPDATE(failed_at) ON TABLE public.ingestion_job TO counterfoil_delivery;

GRANT UPDATE(revision) ON TABLE public.ingestion_job TO counterfoil_worker;
GRANT SELECT(revision),UPDATE(revision) ON TABLE public.ingestion_job TO counterfoil_delivery;

GRANT UPDATE(claim_token) ON TABLE public.ingestion_job TO counterfoil_worker;
GRANT SELECT(claim_token),UPDATE(claim_token) ON TABLE public.ingestion_job TO counterfoil_delivery;

GRANT UPDATE(claimed_at) ON TABLE public.ingestion_job TO counterfoil_worker;
GRANT SELECT(claimed_at),UPDATE(claimed_at) ON TABLE public.ingestion_job TO counterfoil_delivery;

GRANT UPDATE(lease_expires_at) ON TABLE public.ingestion_job TO counterfoil_worker;
GRANT SELECT(lease_expires_at),UPDATE(lease_expires_at) ON TABLE public.ingestion_job TO counterfoil_delivery;

GRANT UPDATE(next_attempt_at) ON TABLE public.ingestion_job TO counterfoil_worker;
GRANT SELECT(next_attempt_at),UPDATE(next_attempt_at) ON TABLE public.ingestion_job TO counterfoil_delivery;

GRANT UPDATE(send_number) ON TABLE public.ingestion_job TO counterfoil_worker;
GRANT SELECT(send_number),UPDATE(send_number) ON TABLE public.ingestion_job TO counterfoil_delivery;

GRANT UPDATE(dlq_returns) ON TABLE public.ingestion_job TO counterfoil_worker;
GRANT SELECT(dlq_returns),UPDATE(dlq_returns) ON TABLE public.ingestion_job TO counterfoil_delivery;

GRANT UPDATE(skip_reason) ON TABLE public.ingestion_job TO counterfoil_worker;
GRANT SELECT(skip_reason),UPDATE(skip_reason) ON TABLE public.ingestion_job TO counterfoil_delivery;

GRANT SELECT,INSERT,UPDATE ON TABLE public.key_deletion TO counterfoil_worker;

GRANT SELECT,INSERT ON TABLE public.llm_call TO counterfoil_worker;
GRANT INSERT ON TABLE public.llm_call TO counterfoil_delivery;
GRANT DELETE ON TABLE public.llm_call TO counterfoil_maintenance;

GRANT SELECT(id) ON TABLE public.llm_call TO counterfoil_maintenance;

GRANT UPDATE(outcome) ON TABLE public.llm_call TO counterfoil_worker;

GRANT UPDATE(input_tokens) ON TABLE public.llm_call TO counterfoil_worker;

GRANT UPDATE(output_tokens) ON TABLE public.llm_call TO counterfoil_worker;

GRANT UPDATE(latency_ms) ON TABLE public.llm_call TO counterfoil_worker;

GRANT UPDATE(cost_usd) ON TABLE public.llm_call TO counterfoil_worker;

GRANT SELECT(created_at) ON TABLE public.llm_call TO counterfoil_maintenance;

GRANT SELECT,INSERT ON TABLE public.llm_daily_usage TO counterfoil_worker;

GRANT UPDATE(calls) ON TABLE public.llm_daily_usage TO counterfoil_worker;

GRANT UPDATE(chat_calls) ON TABLE public.llm_daily_usage TO counterfoil_worker;

GRANT SELECT,INSERT ON TABLE public.llm_judgment TO counterfoil_worker;

GRANT SELECT,INSERT ON TABLE public.llm_judgment_candidate TO counterfoil_worker;

GRANT SELECT,INSERT ON TABLE public.match_decision TO counterfoil_worker;

GRANT SELECT,INSERT ON TABLE public.matchmaking_jobs TO counterfoil_worker;
GRANT DELETE ON TABLE public.matchmaking_jobs TO counterfoil_maintenance;

GRANT SELECT(id) ON TABLE public.matchmaking_jobs TO counterfoil_maintenance;

GRANT SELECT(date) ON TABLE public.matchmaking_jobs TO counterfoil_maintenance;

GRANT UPDATE(status) ON TABLE public.matchmaking_jobs TO counterfoil_worker;

GRANT UPDATE(offers) ON TABLE public.matchmaking_jobs TO counterfoil_worker;

GRANT UPDATE(started_at) ON TABLE public.matchmaking_jobs TO counterfoil_worker;

GRANT UPDATE(completed_at) ON TABLE public.matchmaking_jobs TO counterfoil_worker;

GRANT UPDATE(error_message) ON TABLE public.matchmaking_jobs TO counterfoil_worker;

GRANT UPDATE(retry_count) ON TABLE public.matchmaking_jobs TO counterfoil_worker;

GRANT UPDATE(shard_id) ON TABLE public.matchmaking_jobs TO counterfoil_worker;

GRANT UPDATE(algorithm_version) ON TABLE public.matchmaking_jobs TO counterfoil_worker;

GRANT UPDATE(inputs_hash) ON TABLE public.matchmaking_jobs TO counterfoil_worker;

GRANT UPDATE(lease_expires_at) ON TABLE public.matchmaking_jobs TO counterfoil_worker;

GRANT UPDATE(attempt) ON TABLE public.matchmaking_jobs TO counterfoil_worker;

GRANT SELECT,INSERT ON TABLE public.notification_delivery TO counterfoil_maintenance;

GRANT SELECT(digest_id) ON TABLE public.notification_delivery TO counterfoil_worker;

GRANT SELECT(tenant_id) ON TABLE public.notification_delivery TO counterfoil_worker;

GRANT SELECT(channel) ON TABLE public.notification_delivery TO counterfoil_worker;

GRANT SELECT(attempts) ON TABLE public.notification_delivery TO counterfoil_worker;
GRANT UPDATE(attempts) ON TABLE public.notification_delivery TO counterfoil_maintenance;

GRANT SELECT(next_attempt_at) ON TABLE public.notification_delivery TO counterfoil_worker;
GRANT UPDATE(next_attempt_at) ON TABLE public.notification_delivery TO counterfoil_maintenance;

GRANT SELECT(sent_at) ON TABLE public.notification_delivery TO counterfoil_worker;
GRANT UPDATE(sent_at) ON TABLE public.notification_delivery TO counterfoil_maintenance;

GRANT SELECT(abandoned_at) ON TABLE public.notification_delivery TO counterfoil_worker;
GRANT UPDATE(abandoned_at) ON TABLE public.notification_delivery TO counterfoil_maintenance;

GRANT SELECT(error) ON TABLE public.notification_delivery TO counterfoil_worker;
GRANT UPDATE(error) ON TABLE public.notification_delivery TO counterfoil_maintenance;

GRANT SELECT ON TABLE public.notification_digest TO counterfoil_worker;
GRANT SELECT,INSERT,DELETE ON TABLE public.notification_digest TO counterfoil_maintenance;

GRANT SELECT,DELETE ON TABLE public.object_erasure TO counterfoil_maintenance;

GRANT UPDATE(due_at) ON TABLE public.object_erasure TO counterfoil_maintenance;

GRANT UPDATE(failures) ON TABLE public.object_erasure TO counterfoil_maintenance;

GRANT SELECT,INSERT ON TABLE public.offer_pool TO counterfoil_worker;
GRANT DELETE ON TABLE public.offer_pool TO counterfoil_maintenance;

GRANT SELECT(id) ON TABLE public.offer_pool TO counterfoil_delivery;

GRANT SELECT(tenant_id) ON TABLE public.offer_pool TO counterfoil_delivery;

GRANT SELECT(date) ON TABLE public.offer_pool TO counterfoil_delivery;

GRANT SELECT(timezone) ON TABLE public.offer_pool TO counterfoil_delivery;

GRANT SELECT(offered_at) ON TABLE public.offer_pool TO counterfoil_delivery;

GRANT SELECT(expires_at) ON TABLE public.offer_pool TO counterfoil_delivery;

GRANT SELECT(user_count) ON TABLE public.offer_pool TO counterfoil_delivery;

GRANT SELECT(pinned_at) ON TABLE public.offer_pool TO counterfoil_delivery;

GRANT SELECT,INSERT ON TABLE public.offer_shard TO counterfoil_worker;

GRANT SELECT(id) ON TABLE public.offer_shard TO counterfoil_delivery;

GRANT SELECT(tenant_id) ON TABLE public.offer_shard TO counterfoil_delivery;

GRANT SELECT(pool_id) ON TABLE public.offer_shard TO counterfoil_delivery;

GRANT SELECT(name) ON TABLE public.offer_shard TO counterfoil_delivery;

GRANT SELECT(date) ON TABLE public.offer_shard TO counterfoil_delivery;

GRANT SELECT(timezone) ON TABLE public.offer_shard TO counterfoil_delivery;

GRANT SELECT(created_at) ON TABLE public.offer_shard TO counterfoil_delivery;

GRANT SELECT(size) ON TABLE public.offer_shard TO counterfoil_delivery;

GRANT UPDATE(excluded) ON TABLE public.offer_shard TO counterfoil_worker;

GRANT UPDATE(completed) ON TABLE public.offer_shard TO counterfoil_worker;
GRANT SELECT(completed) ON TABLE public.offer_shard TO counterfoil_delivery;

GRANT UPDATE(failed) ON TABLE public.offer_shard TO counterfoil_worker;
GRANT SELECT(failed) ON TABLE public.offer_shard TO counterfoil_delivery;

GRANT SELECT(completed_at) ON TABLE public.offer_shard TO counterfoil_delivery;

GRANT UPDATE(status) ON TABLE public.offer_shard TO counterfoil_worker;
GRANT SELECT(status),UPDATE(status) ON TABLE public.offer_shard TO counterfoil_delivery;

GRANT UPDATE(error) ON TABLE public.offer_shard TO counterfoil_worker;
GRANT SELECT(error),UPDATE(error) ON TABLE public.offer_shard TO counterfoil_delivery;

GRANT UPDATE(attempts) ON TABLE public.offer_shard TO counterfoil_worker;
GRANT SELECT(attempts),UPDATE(attempts) ON TABLE public.offer_shard TO counterfoil_delivery;

GRANT UPDATE(failed_at) ON TABLE public.offer_shard TO counterfoil_worker;
GRANT SELECT(failed_at),UPDATE(failed_at) ON TABLE public.offer_shard TO counterfoil_delivery;

GRANT UPDATE(revision) ON TABLE public.offer_shard TO counterfoil_worker;
GRANT SELECT(revision),UPDATE(revision) ON TABLE public.offer_shard TO counterfoil_delivery;

GRANT UPDATE(claim_token) ON TABLE public.offer_shard TO counterfoil_worker;
GRANT SELECT(claim_token),UPDATE(claim_token) ON TABLE public.offer_shard TO counterfoil_delivery;

GRANT UPDATE(claimed_at) ON TABLE public.offer_shard TO counterfoil_worker;
GRANT SELECT(claimed_at),UPDATE(claimed_at) ON TABLE public.offer_shard TO counterfoil_delivery;

GRANT UPDATE(lease_expires_at) ON TABLE public.offer_shard TO counterfoil_worker;
GRANT SELECT(lease_expires_at),UPDATE(lease_expires_at) ON TABLE public.offer_shard TO counterfoil_delivery;

GRANT UPDATE(next_attempt_at) ON TABLE public.offer_shard TO counterfoil_worker;
GRANT SELECT(next_attempt_at),UPDATE(next_attempt_at) ON TABLE public.offer_shard TO counterfoil_delivery;

GRANT UPDATE(send_number) ON TABLE public.offer_shard TO counterfoil_worker;
GRANT SELECT(send_number),UPDATE(send_number) ON TABLE public.offer_shard TO counterfoil_delivery;

GRANT UPDATE(dlq_returns) ON TABLE public.offer_shard TO counterfoil_worker;
GRANT SELECT(dlq_returns),UPDATE(dlq_returns) ON TABLE public.offer_shard TO counterfoil_delivery;

GRANT UPDATE(skip_reason) ON TABLE public.offer_shard TO counterfoil_worker;
GRANT SELECT(skip_reason),UPDATE(skip_reason) ON TABLE public.offer_shard TO counterfoil_delivery;

GRANT SELECT(seconds) ON TABLE public.offer_shard TO counterfoil_delivery;

GRANT SELECT,INSERT ON TABLE public.offers TO counterfoil_worker;

GRANT SELECT,INSERT ON TABLE public.operation TO counterfoil_worker;
GRANT DELETE ON TABLE public.operation TO counterfoil_maintenance;

GRANT SELECT(id) ON TABLE public.operation TO counterfoil_delivery;

GRANT SELECT(tenant_id) ON TABLE public.operation TO counterfoil_delivery;

GRANT SELECT(action) ON TABLE public.operation TO counterfoil_delivery;

GRANT UPDATE(rate) ON TABLE public.operation TO counterfoil_worker;

GRANT SELECT(requested_at) ON TABLE public.operation TO counterfoil_delivery;

GRANT UPDATE(state) ON TABLE public.operation TO counterfoil_worker;
GRANT SELECT(state) ON TABLE public.operation TO counterfoil_delivery;

GRANT UPDATE(version) ON TABLE public.operation TO counterfoil_worker;

GRANT UPDATE(reason) ON TABLE public.operation TO counterfoil_worker;

GRANT UPDATE(ended_at) ON TABLE public.operation TO counterfoil_worker;
GRANT SELECT(ended_at) ON TABLE public.operation TO counterfoil_delivery;

GRANT UPDATE(cursor_at) ON TABLE public.operation TO counterfoil_worker;

GRANT UPDATE(cursor_id) ON TABLE public.operation TO counterfoil_worker;

GRANT UPDATE(selection_complete) ON TABLE public.operation TO counterfoil_worker;

GRANT UPDATE(selected) ON TABLE public.operation TO counterfoil_worker;

GRANT UPDATE(processed) ON TABLE public.operation TO counterfoil_worker;

GRANT UPDATE(succeeded) ON TABLE public.operation TO counterfoil_worker;

GRANT UPDATE(failed) ON TABLE public.operation TO counterfoil_worker;

GRANT UPDATE(skipped) ON TABLE public.operation TO counterfoil_worker;

GRANT UPDATE(canary_started_at) ON TABLE public.operation TO counterfoil_worker;

GRANT UPDATE(canary_passed_at) ON TABLE public.operation TO counterfoil_worker;

GRANT UPDATE(last_step_at) ON TABLE public.operation TO counterfoil_worker;

GRANT UPDATE(restored_at) ON TABLE public.operation TO counterfoil_worker;
GRANT SELECT(restored_at) ON TABLE public.operation TO counterfoil_delivery;

GRANT UPDATE(file) ON TABLE public.operation TO counterfoil_worker;

GRANT SELECT,INSERT ON TABLE public.operation_item TO counterfoil_worker;
GRANT DELETE ON TABLE public.operation_item TO counterfoil_maintenance;

GRANT SELECT(operation_id) ON TABLE public.operation_item TO counterfoil_maintenance;

GRANT SELECT(number) ON TABLE public.operation_item TO counterfoil_maintenance;

GRANT UPDATE(result) ON TABLE public.operation_item TO counterfoil_worker;

GRANT UPDATE(reason) ON TABLE public.operation_item TO counterfoil_worker;

GRANT UPDATE(version) ON TABLE public.operation_item TO counterfoil_worker;

GRANT UPDATE(revision) ON TABLE public.operation_item TO counterfoil_worker;

GRANT SELECT(id) ON TABLE public.organization TO counterfoil_api;

GRANT SELECT(name),INSERT(name) ON TABLE public.organization TO counterfoil_api;

GRANT SELECT,INSERT ON TABLE public.outbox TO counterfoil_worker;
GRANT SELECT,INSERT,DELETE ON TABLE public.outbox TO counterfoil_delivery;

GRANT UPDATE(scheduled_at) ON TABLE public.outbox TO counterfoil_delivery;

GRANT UPDATE(sent_at) ON TABLE public.outbox TO counterfoil_delivery;

GRANT SELECT,INSERT ON TABLE public.output_job TO counterfoil_worker;

GRANT SELECT(id) ON TABLE public.output_job TO counterfoil_delivery;

GRANT SELECT(tenant_id) ON TABLE public.output_job TO counterfoil_delivery;

GRANT SELECT(destination_id) ON TABLE public.output_job TO counterfoil_delivery;

GRANT SELECT(subject) ON TABLE public.output_job TO counterfoil_delivery;

GRANT SELECT(subject_id) ON TABLE public.output_job TO counterfoil_delivery;

GRANT UPDATE(schema_version) ON TABLE public.output_job TO counterfoil_worker;

GRANT UPDATE(payload) ON TABLE public.output_job TO counterfoil_worker;

GRANT UPDATE(requested_at) ON TABLE public.output_job TO counterfoil_worker;

GRANT UPDATE(delivered_at) ON TABLE public.output_job TO counterfoil_worker;

GRANT UPDATE(response_status) ON TABLE public.output_job TO counterfoil_worker;

GRANT SELECT(created_at) ON TABLE public.output_job TO counterfoil_delivery;

GRANT UPDATE(status) ON TABLE public.output_job TO counterfoil_worker;
GRANT SELECT(status),UPDATE(status) ON TABLE public.output_job TO counterfoil_delivery;

GRANT UPDATE(error) ON TABLE public.output_job TO counterfoil_worker;
GRANT SELECT(error),UPDATE(error) ON TABLE public.output_job TO counterfoil_delivery;

GRANT UPDATE(attempts) ON TABLE public.output_job TO counterfoil_worker;
GRANT SELECT(attempts),UPDATE(attempts) ON TABLE public.output_job TO counterfoil_delivery;

GRANT UPDATE(failed_at) ON TABLE public.output_job TO counterfoil_worker;
GRANT SELECT(failed_at),UPDATE(failed_at) ON TABLE public.output_job TO counterfoil_delivery;

GRANT UPDATE(revision) ON TABLE public.output_job TO counterfoil_worker;
GRANT SELECT(revision),UPDATE(revision) ON TABLE public.output_job TO counterfoil_delivery;

GRANT UPDATE(claim_token) ON TABLE public.output_job TO counterfoil_worker;
GRANT SELECT(claim_token),UPDATE(claim_token) ON TABLE public.output_job TO counterfoil_delivery;

GRANT UPDATE(claimed_at) ON TABLE public.output_job TO counterfoil_worker;
GRANT SELECT(claimed_at),UPDATE(claimed_at) ON TABLE public.output_job TO counterfoil_delivery;

GRANT UPDATE(lease_expires_at) ON TABLE public.output_job TO counterfoil_worker;
GRANT SELECT(lease_expires_at),UPDATE(lease_expires_at) ON TABLE public.output_job TO counterfoil_delivery;

GRANT UPDATE(next_attempt_at) ON TABLE public.output_job TO counterfoil_worker;
GRANT SELECT(next_attempt_at),UPDATE(next_attempt_at) ON TABLE public.output_job TO counterfoil_delivery;

GRANT UPDATE(send_number) ON TABLE public.output_job TO counterfoil_worker;
GRANT SELECT(send_number),UPDATE(send_number) ON TABLE public.output_job TO counterfoil_delivery;

GRANT UPDATE(dlq_returns) ON TABLE public.output_job TO counterfoil_worker;
GRANT SELECT(dlq_returns),UPDATE(dlq_returns) ON TABLE public.output_job TO counterfoil_delivery;

GRANT UPDATE(skip_reason) ON TABLE public.output_job TO counterfoil_worker;
GRANT SELECT(skip_reason),UPDATE(skip_reason) ON TABLE public.output_job TO counterfoil_delivery;

GRANT SELECT,INSERT ON TABLE public.page_reading_cache TO counterfoil_worker;

GRANT SELECT,INSERT,DELETE ON TABLE public.payload_deletion TO counterfoil_worker;
GRANT DELETE ON TABLE public.payload_deletion TO counterfoil_maintenance;

GRANT SELECT(key) ON TABLE public.payload_deletion TO counterfoil_maintenance;

GRANT SELECT(due_at) ON TABLE public.payload_deletion TO counterfoil_maintenance;

GRANT SELECT ON TABLE public.person TO counterfoil_worker;
GRANT INSERT ON TABLE public.person TO counterfoil_api;

GRANT UPDATE(email) ON TABLE public.person TO counterfoil_api;

GRANT SELECT,INSERT,DELETE ON TABLE public.profile TO counterfoil_worker;

GRANT UPDATE(timezone) ON TABLE public.profile TO counterfoil_worker;

GRANT UPDATE(is_active) ON TABLE public.profile TO counterfoil_worker;

GRANT UPDATE(birth_date) ON TABLE public.profile TO counterfoil_worker;

GRANT UPDATE(gender) ON TABLE public.profile TO counterfoil_worker;

GRANT UPDATE(seeks_genders) ON TABLE public.profile TO counterfoil_worker;

GRANT UPDATE(min_age) ON TABLE public.profile TO counterfoil_worker;

GRANT UPDATE(max_age) ON TABLE public.profile TO counterfoil_worker;

GRANT UPDATE(latitude) ON TABLE public.profile TO counterfoil_worker;

GRANT UPDATE(longitude) ON TABLE public.profile TO counterfoil_worker;

GRANT UPDATE(max_distance_km) ON TABLE public.profile TO counterfoil_worker;

GRANT UPDATE(traits) ON TABLE public.profile TO counterfoil_worker;

GRANT UPDATE(updated_at) ON TABLE public.profile TO counterfoil_worker;

GRANT SELECT ON TABLE public.queue_minute_stats TO counterfoil_worker;
GRANT SELECT ON TABLE public.queue_minute_stats TO counterfoil_delivery;
GRANT INSERT,DELETE ON TABLE public.queue_minute_stats TO counterfoil_maintenance;

GRANT UPDATE(succeeded) ON TABLE public.queue_minute_stats TO counterfoil_maintenance;

GRANT UPDATE(skipped) ON TABLE public.queue_minute_stats TO counterfoil_maintenance;

GRANT UPDATE(failed) ON TABLE public.queue_minute_stats TO counterfoil_maintenance;

GRANT UPDATE(pending) ON TABLE public.queue_minute_stats TO counterfoil_maintenance;

GRANT UPDATE(oldest_seconds) ON TABLE public.queue_minute_stats TO counterfoil_maintenance;

GRANT UPDATE(dead_letters) ON TABLE public.queue_minute_stats TO counterfoil_maintenance;

GRANT UPDATE(depth) ON TABLE public.queue_minute_stats TO counterfoil_maintenance;

GRANT SELECT,INSERT,UPDATE ON TABLE public.queue_pause TO counterfoil_delivery;

GRANT SELECT,INSERT ON TABLE public.rate_limit_bucket TO counterfoil_worker;
GRANT SELECT,INSERT ON TABLE public.rate_limit_bucket TO counterfoil_delivery;

GRANT UPDATE(tokens) ON TABLE public.rate_limit_bucket TO counterfoil_worker;
GRANT UPDATE(tokens) ON TABLE public.rate_limit_bucket TO counterfoil_delivery;

GRANT UPDATE(refilled_at) ON TABLE public.rate_limit_bucket TO counterfoil_worker;
GRANT UPDATE(refilled_at) ON TABLE public.rate_limit_bucket TO counterfoil_delivery;

GRANT SELECT,INSERT ON TABLE public.source TO counterfoil_worker;

GRANT SELECT(id) ON TABLE public.source TO counterfoil_delivery;

GRANT SELECT(tenant_id) ON TABLE public.source TO counterfoil_delivery;

GRANT UPDATE(attachments) ON TABLE public.source TO counterfoil_worker;

GRANT UPDATE(rejection_reason) ON TABLE public.source TO counterfoil_worker;

GRANT UPDATE(hold) ON TABLE public.source TO counterfoil_worker;

GRANT SELECT,INSERT ON TABLE public.task TO counterfoil_worker;
GRANT DELETE ON TABLE public.task TO counterfoil_maintenance;

GRANT SELECT(id) ON TABLE public.task TO counterfoil_delivery;

GRANT SELECT(tenant_id) ON TABLE public.task TO counterfoil_delivery;

GRANT SELECT(task_type) ON TABLE public.task TO counterfoil_delivery;

GRANT UPDATE(payload) ON TABLE public.task TO counterfoil_worker;

GRANT UPDATE(payload_s3_key) ON TABLE public.task TO counterfoil_worker;

GRANT SELECT(max_retry) ON TABLE public.task TO counterfoil_delivery;

GRANT SELECT(created_at) ON TABLE public.task TO counterfoil_delivery;

GRANT UPDATE(result) ON TABLE public.task TO counterfoil_worker;

GRANT UPDATE(ended_at) ON TABLE public.task TO counterfoil_worker;
GRANT SELECT(ended_at) ON TABLE public.task TO counterfoil_maintenance;

GRANT UPDATE(canceled_at) ON TABLE public.task TO counterfoil_worker;

GRANT UPDATE(status) ON TABLE public.task TO counterfoil_worker;
GRANT SELECT(status),UPDATE(status) ON TABLE public.task TO counterfoil_delivery;

GRANT UPDATE(error) ON TABLE public.task TO counterfoil_worker;
GRANT SELECT(error),UPDATE(error) ON TABLE public.task TO counterfoil_delivery;

GRANT UPDATE(attempts) ON TABLE public.task TO counterfoil_worker;
GRANT SELECT(attempts),UPDATE(attempts) ON TABLE public.task TO counterfoil_delivery;

GRANT UPDATE(failed_at) ON TABLE public.task TO counterfoil_worker;
GRANT SELECT(failed_at),UPDATE(failed_at) ON TABLE public.task TO counterfoil_delivery;

GRANT UPDATE(revision) ON TABLE public.task TO counterfoil_worker;
GRANT SELECT(revision),UPDATE(revision) ON TABLE public.task TO counterfoil_delivery;

GRANT UPDATE(claim_token) ON TABLE public.task TO counterfoil_worker;
GRANT SELECT(claim_token),UPDATE(claim_token) ON TABLE public.task TO counterfoil_delivery;

GRANT UPDATE(claimed_at) ON TABLE public.task TO counterfoil_worker;
GRANT SELECT(claimed_at),UPDATE(claimed_at) ON TABLE public.task TO counterfoil_delivery;

GRANT UPDATE(lease_expires_at) ON TABLE public.task TO counterfoil_worker;
GRANT SELECT(lease_expires_at),UPDATE(lease_expires_at) ON TABLE public.task TO counterfoil_delivery;

GRANT UPDATE(next_attempt_at) ON TABLE public.task TO counterfoil_worker;
GRANT SELECT(next_attempt_at),UPDATE(next_attempt_at) ON TABLE public.task TO counterfoil_delivery;

GRANT UPDATE(send_number) ON TABLE public.task TO counterfoil_worker;
GRANT SELECT(send_number),UPDATE(send_number) ON TABLE public.task TO counterfoil_delivery;

GRANT UPDATE(dlq_returns) ON TABLE public.task TO counterfoil_worker;
GRANT SELECT(dlq_returns),UPDATE(dlq_returns) ON TABLE public.task TO counterfoil_delivery;

GRANT UPDATE(skip_reason) ON TABLE public.task TO counterfoil_worker;
GRANT SELECT(skip_reason),UPDATE(skip_reason) ON TABLE public.task TO counterfoil_delivery;

GRANT SELECT ON TABLE public.tenant TO counterfoil_worker;

GRANT SELECT(id) ON TABLE public.tenant TO counterfoil_delivery;

GRANT INSERT(organization_id) ON TABLE public.tenant TO counterfoil_api;

GRANT SELECT(slug) ON TABLE public.tenant TO counterfoil_delivery;
GRANT INSERT(slug) ON TABLE public.tenant TO counterfoil_api;

GRANT SELECT(name) ON TABLE public.tenant TO counterfoil_maintenance;
GRANT INSERT(name),UPDATE(name) ON TABLE public.tenant TO counterfoil_api;

GRANT UPDATE(dmarc_policy) ON TABLE public.tenant TO counterfoil_worker;

GRANT UPDATE(disabled_at) ON TABLE public.tenant TO counterfoil_api;
GRANT SELECT(disabled_at) ON TABLE public.tenant TO counterfoil_delivery;

GRANT SELECT ON TABLE public.tenant_address TO counterfoil_worker;
GRANT DELETE ON TABLE public.tenant_address TO counterfoil_api;

GRANT SELECT(address) ON TABLE public.tenant_address TO counterfoil_delivery;
GRANT INSERT(address) ON TABLE public.tenant_address TO counterfoil_api;

GRANT SELECT(tenant_id) ON TABLE public.tenant_address TO counterfoil_delivery;
GRANT INSERT(tenant_id) ON TABLE public.tenant_address TO counterfoil_api;

GRANT SELECT ON TABLE public.tenant_admin TO counterfoil_worker;
GRANT SELECT ON TABLE public.tenant_admin TO counterfoil_maintenance;
GRANT DELETE ON TABLE public.tenant_admin TO counterfoil_api;

GRANT INSERT(tenant_id) ON TABLE public.tenant_admin TO counterfoil_api;

GRANT INSERT(email) ON TABLE public.tenant_admin TO counterfoil_api;

GRANT SELECT,DELETE ON TABLE public.tenant_erasure TO counterfoil_maintenance;

GRANT UPDATE(id) ON TABLE public.tenant_erasure TO counterfoil_maintenance;

GRANT UPDATE(slug) ON TABLE public.tenant_erasure TO counterfoil_maintenance;

GRANT UPDATE(row_count) ON TABLE public.tenant_erasure TO counterfoil_maintenance;

GRANT UPDATE(object_count) ON TABLE public.tenant_erasure TO counterfoil_maintenance;

GRANT UPDATE(cleared_at) ON TABLE public.tenant_erasure TO counterfoil_maintenance;

GRANT UPDATE(finished_at) ON TABLE public.tenant_erasure TO counterfoil_maintenance;

GRANT UPDATE(due_at) ON TABLE public.tenant_erasure TO counterfoil_maintenance;

GRANT UPDATE(failures) ON TABLE public.tenant_erasure TO counterfoil_maintenance;

GRANT UPDATE(next_table) ON TABLE public.tenant_erasure TO counterfoil_maintenance;

GRANT UPDATE(next_page) ON TABLE public.tenant_erasure TO counterfoil_maintenance;

GRANT SELECT ON TABLE public.tolerance TO counterfoil_worker;
GRANT INSERT,DELETE ON TABLE public.tolerance TO counterfoil_api;

GRANT SELECT,INSERT,UPDATE ON TABLE public.upload_event_check TO counterfoil_delivery;

GRANT SELECT,INSERT,UPDATE ON TABLE public.upload_inventory TO counterfoil_delivery;

GRANT SELECT,INSERT,UPDATE ON TABLE public.upload_listing TO counterfoil_delivery;

GRANT SELECT,INSERT,DELETE ON TABLE public.user_block TO counterfoil_worker;

GRANT SELECT,INSERT ON TABLE public.variance_decision TO counterfoil_worker;

GRANT SELECT,INSERT ON TABLE public.work_attempt TO counterfoil_worker;
GRANT INSERT ON TABLE public.work_attempt TO counterfoil_delivery;
GRANT DELETE ON TABLE public.work_attempt TO counterfoil_maintenance;

GRANT SELECT(id) ON TABLE public.work_attempt TO counterfoil_maintenance;
GRANT SELECT(id) ON TABLE public.work_attempt TO counterfoil_delivery;

GRANT SELECT(worker) ON TABLE public.work_attempt TO counterfoil_delivery;

GRANT SELECT(work_id) ON TABLE public.work_attempt TO counterfoil_delivery;

GRANT SELECT(ended_at) ON TABLE public.work_attempt TO counterfoil_maintenance;

GRANT SELECT(outcome) ON TABLE public.work_attempt TO counterfoil_delivery;

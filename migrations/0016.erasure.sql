-- Erasure of documents with their files, and of tenants with all their rows and objects, in bounded transactions.

-- Erasures of tenants. The row is written before anything is erased, and the watchdog runs the erasure in steps. The
-- row of a finished erasure contains no name. Its hash identifies late messages about the tenant's uploads. The row is
-- deleted when queues can no longer contain such messages.
CREATE TABLE tenant_erasure (
    slug_hash    bytea PRIMARY KEY CHECK (octet_length(slug_hash) = 32),
    id           uuid UNIQUE,  -- tenant id; `id` and `slug` are NULL when finished
    slug         text,
    requested_at timestamptz NOT NULL,
    row_count    bigint NOT NULL DEFAULT 0,
    object_count bigint NOT NULL DEFAULT 0,
    cleared_at   timestamptz,  -- when the erasure first found no more rows or objects
    finished_at  timestamptz,
    due_at       timestamptz NOT NULL,
    failures     integer NOT NULL DEFAULT 0,  -- failed runs since the last success
    next_table   name,  -- table where the erasure continues; earlier tables are empty
    next_page    bigint NOT NULL DEFAULT 0,  -- page where it continues, if the table has no index on tenant_id
    CHECK (num_nulls(id, slug) = CASE WHEN finished_at IS NULL THEN 0 ELSE 2 END)
);

-- Objects to erase from S3. A key that ends with a slash denotes every object below it.
CREATE TABLE object_erasure (
    id              uuid PRIMARY KEY DEFAULT uuidv7(),
    bucket          text NOT NULL,
    key             text NOT NULL,
    tenant          uuid,  -- tenant whose documents may use the object; NULL: the object is always erased
    version         text,  -- NULL: every version
    modified_before timestamptz NOT NULL,  -- a later object with the same key is a different file
    due_at          timestamptz NOT NULL DEFAULT now(),
    failures        integer NOT NULL DEFAULT 0,  -- failed runs since the last success
    UNIQUE NULLS NOT DISTINCT (bucket, key, version)
);
CREATE INDEX object_erasure_by_due ON object_erasure (due_at);

GRANT SELECT, DELETE,
      UPDATE (row_count, object_count, cleared_at, finished_at, id, slug, due_at, failures, next_table, next_page)
    ON tenant_erasure TO counterfoil_maintenance;
GRANT SELECT, DELETE, UPDATE (due_at, failures) ON object_erasure TO counterfoil_maintenance;

-- Policies for the functions below, which run as the owner and access one tenant's rows in every table with tenant_id.
DO $security$
DECLARE
    table_name text;
BEGIN
    FOR table_name IN
        SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant_id'
        WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' ORDER BY 1
    LOOP
        EXECUTE format($policy$CREATE POLICY erasure ON %I TO counterfoil_owner
            USING (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)
            WITH CHECK (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)$policy$, table_name);
    END LOOP;
END
$security$;
-- An email can be addressed to several tenants, and is stored until the last of them is erased. The email's own job has
-- no tenant.
CREATE POLICY erasure_shared ON acquisition_job FOR SELECT TO counterfoil_owner USING (true);
CREATE POLICY erasure_unassigned ON acquisition_job FOR UPDATE TO counterfoil_owner
    USING (tenant_id IS NULL OR skip_reason = 'The file was erased.') WITH CHECK (skip_reason = 'The file was erased.');

-- Returns a slug's hash. It is salted, because slugs can be guessed.
CREATE FUNCTION hash_of_slug(slug text) RETURNS bytea
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp
AS $body$ SELECT sha256(salt || convert_to(slug, 'UTF8')) FROM audit_salt_global $body$;
REVOKE ALL ON FUNCTION hash_of_slug FROM PUBLIC;
GRANT EXECUTE ON FUNCTION hash_of_slug TO counterfoil_delivery;

CREATE FUNCTION find_tenant_erasure(
    erased_slug text, OUT requested_at timestamptz, OUT row_count bigint, OUT object_count bigint,
    OUT finished_at timestamptz
) RETURNS SETOF record
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp
AS $body$
    SELECT requested_at, row_count, object_count, finished_at FROM tenant_erasure
    WHERE slug_hash = hash_of_slug(erased_slug)
$body$;
REVOKE ALL ON FUNCTION find_tenant_erasure FROM PUBLIC;
GRANT EXECUTE ON FUNCTION find_tenant_erasure TO counterfoil_delivery;

-- Stores the erasure and removes the tenant's slug and addresses, so nothing new can reach the tenant. Returns the
-- values for the audit trail, or no row if the tenant does not exist.
CREATE FUNCTION begin_tenant_erasure(
    erased_slug text, at timestamptz, OUT hash bytea, OUT chain_number bigint, OUT chain_hash bytea
) RETURNS SETOF record
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp
AS $body$
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
$body$;
REVOKE ALL ON FUNCTION begin_tenant_erasure FROM PUBLIC;
GRANT EXECUTE ON FUNCTION begin_tenant_erasure TO counterfoil_delivery;

-- Schedules the erasure of erased tenants' uploads whose messages arrive late, and returns their keys.
CREATE FUNCTION erase_late_uploads(
    buckets text[], keys text[], slugs text[], at timestamptz
) RETURNS SETOF text
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp
AS $body$
    WITH late AS (
        SELECT DISTINCT u.bucket, u.key FROM unnest(buckets, keys, slugs) AS u (bucket, key, slug)
        JOIN tenant_erasure e ON e.slug_hash = hash_of_slug(u.slug)
    ), scheduled AS (
        INSERT INTO object_erasure (bucket, key, modified_before, due_at) SELECT bucket, key, at, at FROM late
        ON CONFLICT (bucket, key, version)
            DO UPDATE SET modified_before = excluded.modified_before, due_at = excluded.due_at
    )
    SELECT DISTINCT key FROM late
$body$;
REVOKE ALL ON FUNCTION erase_late_uploads FROM PUBLIC;
GRANT EXECUTE ON FUNCTION erase_late_uploads TO counterfoil_delivery;

-- Returns the tables with tenant_id, each before the tables that it references. payload_deletion comes last, because
-- the trigger enqueue_payload_deletion on task inserts into it.
CREATE FUNCTION tenant_tables() RETURNS SETOF name
LANGUAGE sql STABLE SET search_path = pg_catalog, public, pg_temp
AS $body$
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
$body$;
REVOKE ALL ON FUNCTION tenant_tables FROM PUBLIC;
GRANT EXECUTE ON FUNCTION tenant_tables TO counterfoil_maintenance;

-- Deletes up to `max_rows` rows of a tenant that is being erased from one table. If the table has no index on
-- tenant_id, up to `max_rows` pages are read instead. Returns true if no rows are left, NULL if other transactions lock
-- rows, and otherwise false.
CREATE FUNCTION erase_tenant_rows(erased_tenant_id uuid, target_table name, max_rows integer) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp
AS $body$
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
$body$;
REVOKE ALL ON FUNCTION erase_tenant_rows FROM PUBLIC;
GRANT EXECUTE ON FUNCTION erase_tenant_rows TO counterfoil_maintenance;

-- Deletes the tenant after its rows, and the organization with its last tenant.
CREATE FUNCTION erase_tenant(erased_tenant_id uuid) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp
AS $body$
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
$body$;
REVOKE ALL ON FUNCTION erase_tenant FROM PUBLIC;
GRANT EXECUTE ON FUNCTION erase_tenant TO counterfoil_maintenance;

-- Deletes answers from the language model that quote the documents. It must be called before the documents are deleted.
CREATE FUNCTION erase_llm_judgments(ids uuid[]) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp
AS $body$
    DELETE FROM llm_judgment j USING llm_judgment_candidate c
    WHERE c.candidate_id = ANY(ids) AND (j.document_id, j.question) = (c.document_id, c.question)
      AND j.tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid
$body$;
REVOKE ALL ON FUNCTION erase_llm_judgments FROM PUBLIC;
GRANT EXECUTE ON FUNCTION erase_llm_judgments TO counterfoil_worker;

-- Returns the versions of a file that the current tenant's documents, except `ids`, use. NULL means every version.
CREATE FUNCTION needed_versions(file_bucket text, file_key text, ids uuid[]) RETURNS SETOF text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp
AS $body$
    WITH own AS (SELECT nullif(current_setting('counterfoil.tenant', true), '')::uuid AS id)
    SELECT d.version FROM own JOIN document d ON d.tenant_id = own.id
    WHERE (d.bucket, d.key) = (file_bucket, file_key) AND d.id <> ALL(ids)
    UNION
    SELECT r.version FROM own JOIN document_deletion r ON r.tenant_id = own.id
    WHERE (r.bucket, r.key) = (file_bucket, file_key) AND r.document_id <> ALL(ids)
    UNION
    SELECT c.version FROM own JOIN document_duplicate_file c ON c.tenant_id = own.id
    WHERE (c.bucket, c.key) = (file_bucket, file_key) AND c.document_id <> ALL(ids)
$body$;
REVOKE ALL ON FUNCTION needed_versions FROM PUBLIC;

-- Schedules the erasure of files that only the deleted documents used, and erases the documents' names. By
-- `stale_until`, every attempt that is now in progress has ended. Returns the acquisition jobs whose files are erased,
-- and the number of sources that are retained.
CREATE FUNCTION erase_documents(
    ids uuid[], at timestamptz, stale_until timestamptz, OUT jobs uuid[], OUT retained integer
)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp
AS $body$
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
$body$;
REVOKE ALL ON FUNCTION erase_documents FROM PUBLIC;
GRANT EXECUTE ON FUNCTION erase_documents TO counterfoil_worker;

CREATE FUNCTION erase_dead_letters(job_ids uuid[]) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp
AS $body$
    DELETE FROM failure_event WHERE job_id = ANY(job_ids)
        AND tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid;
    DELETE FROM dead_letter WHERE job_id = ANY(job_ids)
        AND tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid;
$body$;
REVOKE ALL ON FUNCTION erase_dead_letters FROM PUBLIC;
GRANT EXECUTE ON FUNCTION erase_dead_letters TO counterfoil_worker;

-- Returns the scope of a due erasure: versions modified up to `before`, except `needed` (NULL: all versions). Returns
-- no row while an attempt in progress may have stored the same attachment, but not yet its document.
CREATE FUNCTION begin_object_erasure(
    erasure_id uuid, at timestamptz, OUT before timestamptz, OUT needed text[]
) RETURNS SETOF record
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp
AS $body$
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
$body$;
REVOKE ALL ON FUNCTION begin_object_erasure FROM PUBLIC;
GRANT EXECUTE ON FUNCTION begin_object_erasure TO counterfoil_maintenance;

-- Erases the keys of erased objects. If `modified_before` is in the future, the erasure runs again at that time.
CREATE FUNCTION end_object_erasure(erasure_id uuid, at timestamptz) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp
AS $body$
    UPDATE acquisition_job j SET key = '(erased)/' || j.id, version = NULL
    FROM object_erasure o
    WHERE o.id = erasure_id AND (j.bucket, j.key) = (o.bucket, o.key) AND j.skip_reason = 'The file was erased.'
      AND (o.version IS NULL OR o.version = j.version);
    UPDATE object_erasure SET due_at = modified_before, failures = 0 WHERE id = erasure_id AND modified_before > at;
    DELETE FROM object_erasure WHERE id = erasure_id AND modified_before <= at;
$body$;
REVOKE ALL ON FUNCTION end_object_erasure FROM PUBLIC;
GRANT EXECUTE ON FUNCTION end_object_erasure TO counterfoil_maintenance;

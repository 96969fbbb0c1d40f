-- Dead letters: groups, counts and search words. Operations on dead letters and documents.

-- Requests that run in steps: bulk operations on dead letters, purges of closed dead letters and their restores,
-- exports, and reprocessing of documents. A purge hides dead letters, and can be undone within a week. An export's file
-- is in S3, and the bucket's lifecycle rule deletes it.
CREATE TABLE operation (
    id                 uuid PRIMARY KEY DEFAULT uuidv7(),
    tenant_id          uuid NOT NULL REFERENCES tenant (id) ON DELETE CASCADE,
    action             text NOT NULL CHECK (
        action IN ('retry', 'resolve', 'ignore', 'purge', 'restore', 'export', 'extract', 'match')
    ),
    filter             jsonb,  -- NULL: the caller listed the items
    note               text CHECK (length(note) BETWEEN 1 AND 2000),
    rate               integer CHECK (rate BETWEEN 1 AND 1000),  -- dead letters per second, documents per minute
    canary             integer CHECK (canary >= 1),  -- number of items that are processed first; NULL: no canary
    requested_by       text NOT NULL CHECK (requested_by <> ''),
    requested_at       timestamptz NOT NULL,  -- dead letters that failed later are excluded
    state              text NOT NULL DEFAULT 'selecting'
                     CHECK (state IN ('selecting', 'canary', 'running', 'paused', 'done', 'canceled', 'halted')),
    version            integer NOT NULL DEFAULT 1,  -- increases with each change of state or rate
    reason             text,  -- reason for an automatic halt or pause
    ended_at           timestamptz,
    -- Position of the last selected item, or of the last started item if items are not listed.
    cursor_at          timestamptz,
    cursor_id          uuid,
    selection_complete boolean NOT NULL DEFAULT false,  -- whether all items have been selected
    selected           integer NOT NULL DEFAULT 0,
    processed          integer NOT NULL DEFAULT 0,  -- items up to this number have a result
    succeeded          integer NOT NULL DEFAULT 0,
    failed             integer NOT NULL DEFAULT 0,
    skipped            integer NOT NULL DEFAULT 0,
    canary_started_at  timestamptz,  -- when the wait for the canary began
    canary_passed_at   timestamptz,
    last_step_at       timestamptz NOT NULL,  -- the rate limit is used up until this time
    restored_at        timestamptz,  -- when the restore of a purge was requested
    file               jsonb,  -- an export's file: format, size, uploaded parts, and callers who received a link
    UNIQUE (tenant_id, id),
    CHECK ((ended_at IS NULL) = (state IN ('selecting', 'canary', 'running', 'paused'))),
    CHECK ((cursor_at IS NULL) = (cursor_id IS NULL)),
    CHECK (succeeded + failed + skipped = processed AND processed <= selected),
    CHECK (canary IS NULL OR action = 'retry'),
    CHECK (note IS NOT NULL OR action NOT IN ('resolve', 'ignore')),
    CHECK (filter IS NOT NULL OR action IN ('retry', 'resolve', 'ignore')),
    CHECK (rate IS NOT NULL OR action IN ('purge', 'restore', 'export')),
    CHECK ((file IS NOT NULL) = (action = 'export')),
    CHECK (action <> 'purge' OR filter ? 'status' AND NOT filter -> 'status' ? 'pending')
);
CREATE INDEX operation_active ON operation (requested_at, id)
    WHERE state IN ('selecting', 'canary', 'running');
CREATE INDEX operation_by_tenant ON operation (tenant_id, requested_at DESC, id DESC);
CREATE INDEX operation_ended ON operation (ended_at) WHERE ended_at IS NOT NULL;

-- Permanently failed work items. A job_id always identifies the same work item: if it fails again, its row is reopened.
CREATE TABLE dead_letter (
    job_id            uuid PRIMARY KEY,
    tenant_id         uuid REFERENCES tenant (id) ON DELETE CASCADE,
    worker            text NOT NULL,
    work_id           uuid,
    revision          integer,
    task_type         text NOT NULL,
    payload           jsonb NOT NULL,
    metadata          jsonb NOT NULL,
    attempts          integer NOT NULL,
    fingerprint       text NOT NULL,
    previous_failures jsonb NOT NULL DEFAULT '[]',
    dlq_reason        text NOT NULL CHECK (dlq_reason IN ('non_retriable_error', 'max_retries_exceeded')),
    dlq_timestamp     timestamptz NOT NULL,
    status            text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'retried', 'resolved', 'ignored')),
    resolution        jsonb,
    resolved_at       timestamptz,
    resolved_by       text,
    version           integer NOT NULL DEFAULT 1,  -- increases with each change; callers send what they read
    purged_at         timestamptz,  -- when it was hidden; deleted permanently a week later
    edited_payload    jsonb,  -- corrected payload of a failed task, used when the task is retried
    edit_metadata     jsonb,  -- author, time, and the old and new values
    purge_id          uuid,
    retain_until      timestamptz,  -- minimum retention after a purge was undone
    CHECK ((work_id IS NULL) = (revision IS NULL)),
    CHECK ((edited_payload IS NULL) = (edit_metadata IS NULL)),
    FOREIGN KEY (tenant_id, purge_id) REFERENCES operation (tenant_id, id) ON DELETE SET NULL (purge_id)
);
CREATE INDEX dead_letter_by_status ON dead_letter (status, dlq_timestamp DESC);
CREATE INDEX dead_letter_by_type ON dead_letter (task_type, status);
CREATE INDEX dead_letter_by_tenant ON dead_letter (tenant_id);
-- Order of pages. A page with several statuses is merged from one page per status.
CREATE INDEX dead_letter_page ON dead_letter (tenant_id, status, dlq_timestamp DESC,
    job_id DESC) WHERE purged_at IS NULL;
CREATE INDEX dead_letter_page_of_type ON dead_letter (tenant_id, task_type, status, dlq_timestamp DESC, job_id DESC)
    WHERE purged_at IS NULL;
CREATE INDEX dead_letter_page_of_group ON dead_letter (tenant_id, fingerprint, status, dlq_timestamp DESC, job_id DESC)
    WHERE purged_at IS NULL;
CREATE INDEX dead_letter_purged ON dead_letter (purged_at) WHERE purged_at IS NOT NULL;
CREATE INDEX dead_letter_by_purge ON dead_letter (purge_id) WHERE purge_id IS NOT NULL;
CREATE INDEX dead_letter_by_resolved_at ON dead_letter (resolved_at)
    WHERE status <> 'pending' AND purged_at IS NULL AND retain_until IS NULL;
CREATE INDEX dead_letter_by_retention ON dead_letter (retain_until, resolved_at) WHERE retain_until IS NOT NULL;
-- For searches by the end of an id, which the console's tables show. Finds it among ten million rows.
CREATE INDEX dead_letter_by_id_suffix ON dead_letter (reverse(right(job_id::text, 8)) COLLATE "C")
    WHERE purged_at IS NULL;
-- For the document list, which includes files that failed before they became a document.
CREATE INDEX dead_letter_of_file ON dead_letter (work_id) WHERE worker = 'acquisition' AND purged_at IS NULL;

-- Append-only: no role may change or delete a row. Contains only ids and hashes, and no payloads.
CREATE TABLE dead_letter_audit (
    id          uuid PRIMARY KEY DEFAULT uuidv7(),
    tenant_id   uuid,
    job_id      uuid NOT NULL,
    action      text NOT NULL,
    actor       text NOT NULL,
    detail      jsonb NOT NULL DEFAULT '{}',
    recorded_at timestamptz NOT NULL
);
CREATE INDEX dead_letter_audit_by_job ON dead_letter_audit (job_id, recorded_at);

-- Dead letter groups: the fields that all dead letters with one fingerprint share. Written with the first dead letter.
CREATE TABLE dead_letter_group (
    tenant_id   uuid REFERENCES tenant (id) ON DELETE CASCADE,
    fingerprint text NOT NULL,
    worker      text NOT NULL,
    error_type  text NOT NULL,
    message     text NOT NULL,  -- error message without its varying parts
    words       text[] NOT NULL,  -- search words of the columns above
    first_seen  timestamptz NOT NULL,
    closed_as   text CHECK (closed_as IN ('resolved', 'ignored')),  -- reset by the next dead letter in the group
    closed_at   timestamptz,
    UNIQUE NULLS NOT DISTINCT (tenant_id, fingerprint),
    CHECK ((closed_as IS NULL) = (closed_at IS NULL))
);

-- Additional search words of a dead letter, from its file name and the varying parts of its error.
CREATE TABLE dead_letter_word (
    job_id        uuid NOT NULL REFERENCES dead_letter (job_id) ON DELETE CASCADE,
    tenant_id     uuid,
    word          text NOT NULL,
    dlq_timestamp timestamptz NOT NULL,
    PRIMARY KEY (job_id, word)
);
CREATE INDEX dead_letter_word_page ON dead_letter_word (tenant_id, word, dlq_timestamp DESC, job_id DESC);

-- Number of dead letters by group, type and status (hour NULL), and of new dead letters by group, type and hour (status
-- NULL). Changes insert rows, so transactions do not wait for each other. The watchdog adds the rows up.
CREATE TABLE dead_letter_count (
    tenant_id   uuid REFERENCES tenant (id) ON DELETE CASCADE,
    fingerprint text NOT NULL,
    task_type   text NOT NULL,
    status      text CHECK (status IN ('pending', 'retried', 'resolved', 'ignored')),
    hour        timestamptz,
    delta       bigint NOT NULL,
    last_at     timestamptz NOT NULL,  -- upper bound of dlq_timestamp in this status
    is_rollup   boolean NOT NULL DEFAULT false,
    CHECK ((status IS NULL) <> (hour IS NULL))
);
CREATE INDEX dead_letter_count_by_state ON dead_letter_count (tenant_id, fingerprint, task_type, status)
    INCLUDE (delta, last_at) WHERE hour IS NULL;
CREATE INDEX dead_letter_count_by_hour ON dead_letter_count (tenant_id, fingerprint, hour) INCLUDE (delta)
    WHERE hour IS NOT NULL;
CREATE INDEX dead_letter_count_pending_rollup ON dead_letter_count (tenant_id, fingerprint) WHERE NOT is_rollup;
CREATE INDEX dead_letter_count_by_tenant ON dead_letter_count (tenant_id);

-- A bulk operation's dead letters, in the order of processing. Rows remain when their dead letters are deleted.
CREATE TABLE operation_item (
    operation_id uuid NOT NULL,
    number       integer NOT NULL,
    tenant_id    uuid NOT NULL,
    job_id       uuid NOT NULL,
    result       text CHECK (result IN ('succeeded', 'failed', 'skipped')),  -- NULL: not processed yet
    reason       text,
    version      integer,  -- version of the dead letter after the action
    revision     integer,  -- new revision of the work item
    PRIMARY KEY (operation_id, number),
    UNIQUE (operation_id, job_id),
    FOREIGN KEY (tenant_id, operation_id) REFERENCES operation (tenant_id, id) ON DELETE CASCADE,
    CHECK ((reason IS NULL) = (result IS NULL OR result = 'succeeded'))
) WITH (fillfactor = 80);

-- A statement is planned once per connection, without knowing the size of the transition tables. Joins of new and old
-- rows would use nested loops, which take quadratic time. Therefore, the conditions use EXCEPT.
CREATE FUNCTION count_dead_letters() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path = public, pg_temp
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
CREATE TRIGGER count_on_insert AFTER INSERT ON dead_letter
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION count_dead_letters();
CREATE TRIGGER count_on_update AFTER UPDATE ON dead_letter
    REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION count_dead_letters();
CREATE TRIGGER count_on_delete AFTER DELETE ON dead_letter
    REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION count_dead_letters();

DO $security$
DECLARE
    table_name text;
BEGIN
    FOREACH table_name IN ARRAY ARRAY['dead_letter', 'dead_letter_audit', 'dead_letter_group', 'dead_letter_word',
                                'dead_letter_count', 'operation', 'operation_item'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', table_name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', table_name);
        EXECUTE format($policy$CREATE POLICY own_tenant ON %I TO counterfoil_worker
            USING (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)
            WITH CHECK (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)$policy$, table_name);
    END LOOP;
END
$security$;
DO $security$
DECLARE
    table_name text;
BEGIN
    FOREACH table_name IN ARRAY ARRAY['dead_letter', 'dead_letter_audit', 'dead_letter_group', 'dead_letter_word',
                                'dead_letter_count'] LOOP
        EXECUTE format('CREATE POLICY delivery ON %I TO counterfoil_delivery USING (true) WITH CHECK (true)',
                       table_name);
    END LOOP;
END
$security$;

-- Workers write dead letters. If a worker crashed, the delivery role writes them.
GRANT SELECT, INSERT, UPDATE ON dead_letter TO counterfoil_worker, counterfoil_delivery;
GRANT SELECT, INSERT ON dead_letter_audit, dead_letter_group, dead_letter_word, dead_letter_count
    TO counterfoil_worker, counterfoil_delivery;
GRANT UPDATE (closed_as, closed_at) ON dead_letter_group TO counterfoil_worker;
GRANT DELETE ON dead_letter_word TO counterfoil_worker, counterfoil_delivery;  -- for a dead letter that failed again
GRANT UPDATE (tenant_id) ON dead_letter_word TO counterfoil_delivery;  -- when it gets a tenant
GRANT DELETE ON dead_letter_count TO counterfoil_maintenance;
-- The watchdog may delete dead letters that were purged a week ago, and closed dead letters after their retention. It
-- cannot delete pending dead letters. The policy is restrictive, because the watchdog also has the rights of the
-- delivery role, which sees all rows.
CREATE POLICY retention ON dead_letter AS RESTRICTIVE FOR DELETE TO counterfoil_maintenance
    USING (status <> 'pending' AND (purged_at < now() - interval '7 days' OR purged_at IS NULL));
GRANT DELETE ON dead_letter TO counterfoil_maintenance;

GRANT SELECT, INSERT, UPDATE (rate, state, version, reason, ended_at, cursor_at, cursor_id, selection_complete,
    selected, processed,
                              succeeded, failed, skipped, canary_started_at, canary_passed_at, last_step_at,
                                  restored_at, file)
    ON operation TO counterfoil_worker;
GRANT SELECT, INSERT, UPDATE (result, reason, version, revision) ON operation_item TO counterfoil_worker;
-- The delivery role finds the unfinished operations of all tenants, without their content.
CREATE POLICY delivery ON operation FOR SELECT TO counterfoil_delivery USING (true);
GRANT SELECT (id, tenant_id, action, state, requested_at, ended_at, restored_at) ON operation TO counterfoil_delivery;
-- The watchdog deletes an operation 90 days after its end. It deletes the items first and in steps, because there may
-- be millions.
CREATE POLICY retention ON operation FOR DELETE TO counterfoil_maintenance
    USING (ended_at < now() - interval '90 days');
CREATE POLICY retention ON operation_item TO counterfoil_maintenance
    USING (EXISTS (SELECT FROM operation o
                   WHERE o.id = operation_id AND o.ended_at < now() - interval '90 days')) WITH CHECK (false);
GRANT DELETE ON operation TO counterfoil_maintenance;
GRANT SELECT (operation_id, number), DELETE ON operation_item TO counterfoil_maintenance;

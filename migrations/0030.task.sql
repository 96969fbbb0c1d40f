-- depends: 0029.idempotency
-- Tasks: work that an API accepts, whatever its type; and what became of single tries, of every kind of work.

-- Its id is the job_id of the API. A cancelled task has ended: its status is NULL, with the reason and cancelled_at.
CREATE TABLE task (
    id               uuid PRIMARY KEY,
    tenant_id        uuid NOT NULL REFERENCES tenant (id) ON DELETE CASCADE,
    task_type        text NOT NULL CHECK (length(task_type) BETWEEN 1 AND 100),
    payload          jsonb,
    payload_key      text CHECK (length(payload_key) BETWEEN 1 AND 1024),  -- of the object that holds a large payload
    payload_hash     bytea NOT NULL CHECK (octet_length(payload_hash) = 32),
    max_retry        integer NOT NULL CHECK (max_retry BETWEEN 0 AND 20),
    idempotency_key  text CHECK (length(idempotency_key) BETWEEN 1 AND 255),
    user_id          text CHECK (length(user_id) BETWEEN 1 AND 255),
    created_at       timestamptz NOT NULL,
    result           jsonb,
    ended_at         timestamptz,  -- with the result; what has failed ended at failed_at
    cancelled_at     timestamptz,
    status           text DEFAULT 'pending' CHECK (status IN ('pending', 'in-progress', 'succeeded', 'failed')),
    error            text,
    attempts         integer NOT NULL DEFAULT 0,
    failed_at        timestamptz,
    revision         integer NOT NULL DEFAULT 0,
    claim_token      bigint NOT NULL DEFAULT 0,
    claimed_at       timestamptz,
    lease_expires_at timestamptz,
    next_attempt_at  timestamptz,
    send_number      integer NOT NULL DEFAULT 0,
    returns          integer NOT NULL DEFAULT 0,
    reason           text,
    CHECK ((payload IS NULL) <> (payload_key IS NULL)),
    UNIQUE (tenant_id, idempotency_key),
    UNIQUE (tenant_id, id)
);
CREATE INDEX task_status ON task (status) WHERE status IN ('pending', 'in-progress');
CREATE INDEX task_by_age ON task (tenant_id, created_at DESC, id DESC);
CREATE INDEX task_by_status ON task (tenant_id, status, created_at DESC, id DESC);
CREATE INDEX task_by_type ON task (tenant_id, task_type, created_at DESC, id DESC);

-- One try that came to its end, written when it is settled; of one that was lost with its worker, when that is found.
CREATE TABLE work_attempt (
    id              uuid PRIMARY KEY DEFAULT uuidv7(),
    tenant_id       uuid REFERENCES tenant (id) ON DELETE CASCADE,
    worker          text NOT NULL,
    work_id         uuid NOT NULL,
    revision        integer NOT NULL,
    number          integer NOT NULL,  -- a try that was put off gave its number back: the next one has it again
    began_at        timestamptz NOT NULL,
    ended_at        timestamptz NOT NULL,
    outcome         text NOT NULL CHECK (outcome IN ('succeeded', 'skipped', 'retry', 'deferred', 'failed')),
    error_type      text,
    error           text,
    next_attempt_at timestamptz
);
CREATE INDEX work_attempt_by_work ON work_attempt (work_id, worker, ended_at);
CREATE INDEX work_attempt_by_age ON work_attempt (ended_at);

DO $security$
DECLARE
    name text;
    life_cycle text := 'status, error, attempts, failed_at, revision, claim_token, claimed_at, lease_expires_at, '
                       'next_attempt_at, send_number, returns, reason';
BEGIN
    FOREACH name IN ARRAY ARRAY['task', 'work_attempt'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format($policy$CREATE POLICY own_tenant ON %I TO counterfoil_worker
            USING (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)
            WITH CHECK (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)$policy$, name);
        EXECUTE format('GRANT SELECT, INSERT ON %I TO counterfoil_worker', name);
    END LOOP;
    EXECUTE format('GRANT UPDATE (result, ended_at, cancelled_at, %s) ON task TO counterfoil_worker', life_cycle);
    -- Delivery sees and moves the life cycle of all tenants' work, and no content.
    CREATE POLICY delivery ON task TO counterfoil_delivery USING (true) WITH CHECK (true);
    EXECUTE format('GRANT SELECT (id, tenant_id, created_at, task_type, max_retry, %s), UPDATE (%s) ON task '
                   'TO counterfoil_delivery', life_cycle, life_cycle);
    -- It writes down the tries that it settles for others.
    CREATE POLICY delivery ON work_attempt FOR INSERT TO counterfoil_delivery WITH CHECK (true);
    GRANT INSERT ON work_attempt TO counterfoil_delivery;
    -- The watchdog deletes what is past keeping.
    CREATE POLICY past_keeping ON work_attempt TO counterfoil_keeper
        USING (ended_at < now() - interval '90 days') WITH CHECK (false);
    GRANT SELECT (id, ended_at), DELETE ON work_attempt TO counterfoil_keeper;
    -- For the function below, which acts as the owner.
    FOREACH name IN ARRAY ARRAY['task', 'work_attempt', 'outbox'] LOOP
        EXECUTE format('CREATE POLICY composing ON %I FOR SELECT TO counterfoil_owner USING (true)', name);
    END LOOP;
END
$security$;

-- The bodies of messages that are owed, for whoever sends them. It is the only way for the delivery role to a task's
-- payload, and open only as long as its message is unsent: the body of a task to which nothing is owed is NULL.
CREATE FUNCTION task_messages(ids uuid[]) RETURNS TABLE (id uuid, body jsonb)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp SET timezone = 'UTC'
AS $body$
    SELECT t.id, CASE WHEN owed.exists THEN jsonb_build_object(
        'schema_version', 1,
        'job_id', t.id,
        'task_type', t.task_type,
        'payload', coalesce(t.payload, jsonb_build_object('$claim_check', jsonb_build_object('key', t.payload_key))),
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
    ) owed
    LEFT JOIN LATERAL (
        SELECT a.ended_at, jsonb_build_object('type', a.error_type, 'message', a.error, 'timestamp', a.ended_at,
                                              'context', jsonb_build_object('attempt', a.number)) AS error
        FROM work_attempt a
        WHERE a.work_id = t.id AND a.worker = 'tasks' AND a.revision = t.revision AND a.outcome = 'retry'
        ORDER BY a.ended_at DESC LIMIT 1
    ) last ON true
    WHERE t.id = ANY(ids)
$body$;
REVOKE ALL ON FUNCTION task_messages FROM PUBLIC;
GRANT EXECUTE ON FUNCTION task_messages TO counterfoil_delivery;

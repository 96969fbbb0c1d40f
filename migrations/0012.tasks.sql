-- Tasks that were submitted through the API, and conversations.

-- The id is the job_id of the API. The status of a canceled task is NULL, with skip_reason and canceled_at.
CREATE TABLE task (
    id               uuid PRIMARY KEY,
    tenant_id        uuid NOT NULL REFERENCES tenant (id) ON DELETE CASCADE,
    task_type        text NOT NULL CHECK (length(task_type) BETWEEN 1 AND 100),
    payload          jsonb,
    -- Key of the S3 object with a large payload.
    payload_s3_key   text CHECK (length(payload_s3_key) BETWEEN 1 AND 1024),
    payload_hash     bytea NOT NULL CHECK (octet_length(payload_hash) = 32),
    max_retry        integer NOT NULL CHECK (max_retry BETWEEN 0 AND 20),
    -- The API generates a key if the caller sends none.
    idempotency_key  text NOT NULL CHECK (length(idempotency_key) BETWEEN 1 AND 255),
    user_id          text CHECK (length(user_id) BETWEEN 1 AND 255),
    created_at       timestamptz NOT NULL,
    result           jsonb,
    ended_at         timestamptz,  -- NULL for a failed task, which ended at failed_at
    canceled_at      timestamptz,
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
    dlq_returns      integer NOT NULL DEFAULT 0,
    skip_reason      text,
    CHECK ((payload IS NULL) <> (payload_s3_key IS NULL)),
    UNIQUE (tenant_id, idempotency_key),
    UNIQUE (tenant_id, id)
);
CREATE INDEX task_status ON task (status) WHERE status IN ('pending', 'in-progress');
CREATE INDEX task_by_age ON task (tenant_id, created_at DESC, id DESC);
CREATE INDEX task_by_status ON task (tenant_id, status, created_at DESC, id DESC);
-- Users enter the end of a task's id, as tables show it.
CREATE INDEX task_by_id_suffix ON task (reverse(right(id::text, 8)) COLLATE "C");
CREATE INDEX task_by_type ON task (tenant_id, task_type, created_at DESC, id DESC);
CREATE INDEX task_by_ended_at ON task (ended_at) WHERE status = 'succeeded' OR status IS NULL;

-- Large payloads to delete from S3. A payload is stored as long as its task. A row is inserted before the payload is
-- written, and is due a day later. The transaction that accepts the task deletes the row. The deletion of the task or
-- of its payload inserts the row again. A row is not deleted with its tenant, because its object must still be deleted.
CREATE TABLE payload_deletion (
    key       text PRIMARY KEY,
    tenant_id uuid NOT NULL,
    due_at    timestamptz NOT NULL,
    CHECK (starts_with(key, 'tasks/' || tenant_id || '/'))
);
CREATE INDEX payload_deletion_by_due ON payload_deletion (due_at);

CREATE TABLE chat_session (
    id           uuid PRIMARY KEY,
    tenant_id    uuid NOT NULL REFERENCES tenant (id) ON DELETE CASCADE,
    user_id      text CHECK (length(user_id) BETWEEN 1 AND 255),  -- the only user; NULL: the command line
    created_at   timestamptz NOT NULL,
    last_number  integer NOT NULL DEFAULT 0 CHECK (last_number >= 0),  -- adding a message locks this row
    last_used_at timestamptz NOT NULL DEFAULT now(),  -- time of the last message or reply
    UNIQUE (tenant_id, id)
);
CREATE INDEX chat_session_by_user ON chat_session (tenant_id, user_id, created_at DESC, id DESC);
CREATE INDEX chat_session_by_use ON chat_session (last_used_at);

-- job_id is the task of a user message, which has at most one reply. It is not a foreign key, because messages may be
-- stored longer than their tasks.
CREATE TABLE chat_message (
    id         uuid PRIMARY KEY DEFAULT uuidv7(),
    tenant_id  uuid NOT NULL,
    session_id uuid NOT NULL,
    number     integer NOT NULL CHECK (number > 0),
    role       text NOT NULL CHECK (role IN ('user', 'assistant')),
    content    text NOT NULL CHECK (content <> ''),
    job_id     uuid NOT NULL,
    tokens     integer NOT NULL CHECK (tokens > 0),  -- estimated
    created_at timestamptz NOT NULL,
    UNIQUE (session_id, number),
    UNIQUE (job_id, role),
    FOREIGN KEY (tenant_id, session_id) REFERENCES chat_session (tenant_id, id) ON DELETE CASCADE
);

DO $security$
DECLARE
    table_name text;
BEGIN
    FOREACH table_name IN ARRAY ARRAY['task', 'payload_deletion', 'chat_session', 'chat_message'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', table_name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', table_name);
        EXECUTE format($policy$CREATE POLICY own_tenant ON %I TO counterfoil_worker
            USING (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)
            WITH CHECK (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)$policy$, table_name);
    END LOOP;
END
$security$;

-- Workers delete a conversation's messages from its tasks, but not the tasks themselves.
GRANT SELECT, INSERT, UPDATE (result, ended_at, canceled_at, payload, payload_s3_key, status, error, attempts,
    failed_at,
                              revision, claim_token, claimed_at, lease_expires_at, next_attempt_at, send_number,
                              dlq_returns, skip_reason) ON task TO counterfoil_worker;
-- The delivery role reads and changes the life cycle columns of all tenants' work items, but sees no content.
CREATE POLICY delivery ON task TO counterfoil_delivery USING (true) WITH CHECK (true);
GRANT SELECT (id, tenant_id, created_at, task_type, max_retry, status, error, attempts, failed_at, revision,
              claim_token, claimed_at, lease_expires_at, next_attempt_at, send_number, dlq_returns, skip_reason),
      UPDATE (status, error, attempts, failed_at, revision, claim_token, claimed_at, lease_expires_at, next_attempt_at,
              send_number, dlq_returns, skip_reason)
    ON task TO counterfoil_delivery;
-- Tasks that succeeded or were canceled are stored for three months. A failed task is deleted with its dead letter. The
-- policy is restrictive, because the watchdog also has the rights of the delivery role, which sees all rows.
CREATE POLICY retention ON task AS RESTRICTIVE FOR DELETE TO counterfoil_maintenance
    USING (status = 'failed' OR ((status = 'succeeded' OR status IS NULL) AND ended_at < now() - interval '90 days'));
GRANT SELECT (ended_at), DELETE ON task TO counterfoil_maintenance;

GRANT SELECT, INSERT, DELETE ON payload_deletion TO counterfoil_worker;
-- The watchdog deletes due payloads. The database's clock determines which are due.
CREATE POLICY due ON payload_deletion TO counterfoil_maintenance USING (due_at < now()) WITH CHECK (false);
GRANT SELECT (key, due_at), DELETE ON payload_deletion TO counterfoil_maintenance;

GRANT SELECT, INSERT, UPDATE (last_number, last_used_at), DELETE ON chat_session TO counterfoil_worker;
GRANT SELECT, INSERT ON chat_message TO counterfoil_worker;
-- The delivery role sees which message of a conversation is next, but no content.
CREATE POLICY delivery ON chat_message FOR SELECT TO counterfoil_delivery USING (true);
GRANT SELECT (tenant_id, session_id, number, role, job_id) ON chat_message TO counterfoil_delivery;
-- The watchdog deletes conversations that were not used for three months, and cannot see any others.
CREATE POLICY retention ON chat_session TO counterfoil_maintenance
    USING (last_used_at < now() - interval '90 days') WITH CHECK (false);
GRANT SELECT (id, last_used_at), DELETE ON chat_session TO counterfoil_maintenance;

-- Schedules the deletion of a payload when its task is deleted or no longer refers to the payload. Runs as the owner.
CREATE POLICY owner_insert ON payload_deletion FOR INSERT TO counterfoil_owner WITH CHECK (true);
CREATE FUNCTION enqueue_payload_deletion() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp
AS $body$
BEGIN
    INSERT INTO payload_deletion (key, tenant_id, due_at) VALUES (OLD.payload_s3_key, OLD.tenant_id, now());
    RETURN NULL;
END
$body$;
REVOKE ALL ON FUNCTION enqueue_payload_deletion FROM PUBLIC;
CREATE TRIGGER enqueue_payload_deletion AFTER DELETE ON task FOR EACH ROW WHEN (OLD.payload_s3_key IS NOT NULL)
    EXECUTE FUNCTION enqueue_payload_deletion();
CREATE TRIGGER enqueue_replaced_payload_deletion AFTER UPDATE OF payload_s3_key ON task FOR EACH ROW
    WHEN (OLD.payload_s3_key IS NOT NULL AND NEW.payload_s3_key IS DISTINCT FROM OLD.payload_s3_key)
    EXECUTE FUNCTION enqueue_payload_deletion();

-- Deletes the messages of a deleted conversation from its tasks. It runs as the owner, because the watchdog must not
-- write payloads. It runs before the messages are deleted, because they refer to the tasks. The conversation is already
-- locked, so no message can be added.
CREATE POLICY owner_select ON chat_message FOR SELECT TO counterfoil_owner USING (true);
CREATE POLICY owner_update ON task FOR UPDATE TO counterfoil_owner
    USING (true) WITH CHECK (payload_s3_key IS NULL AND result IS NULL);
CREATE FUNCTION scrub_chat_tasks() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp
AS $body$
BEGIN
    -- A placeholder replaces the message, because the dead letter of such a task can be retried.
    UPDATE task SET payload = '{"message": "(deleted)"}', payload_s3_key = NULL, result = NULL
    WHERE id IN (SELECT job_id FROM chat_message WHERE session_id = OLD.id AND role = 'user');
    RETURN OLD;
END
$body$;
REVOKE ALL ON FUNCTION scrub_chat_tasks FROM PUBLIC;
CREATE TRIGGER scrub_tasks BEFORE DELETE ON chat_session FOR EACH ROW EXECUTE FUNCTION scrub_chat_tasks();

-- Returns the bodies of task messages in the outbox, for the process that sends them. The delivery role can read a
-- task's payload only with this function, and only while its message is unsent: the body is NULL for a task without an
-- unsent outbox row.
CREATE POLICY owner_select ON task FOR SELECT TO counterfoil_owner USING (true);
CREATE POLICY owner_select ON outbox FOR SELECT TO counterfoil_owner USING (true);
CREATE FUNCTION task_messages(ids uuid[]) RETURNS TABLE (id uuid, body jsonb)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp SET timezone = 'UTC'
AS $body$
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
$body$;
REVOKE ALL ON FUNCTION task_messages FROM PUBLIC;
GRANT EXECUTE ON FUNCTION task_messages TO counterfoil_delivery;

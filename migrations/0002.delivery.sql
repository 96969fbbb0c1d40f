-- Delivery for every worker: the outbox, attempts, circuit breakers.

-- Source of claim tokens for all kinds of work items. The newest claim has the highest token.
CREATE SEQUENCE claim_token AS bigint;
GRANT USAGE ON SEQUENCE claim_token TO counterfoil_worker, counterfoil_delivery;

-- Messages to send to workers' queues. Except for tasks, a message contains only the work item's id, revision and send
-- number.
CREATE TABLE outbox (
    id           uuid PRIMARY KEY DEFAULT uuidv7(),
    tenant_id    uuid REFERENCES tenant (id) ON DELETE CASCADE,
    worker       text NOT NULL,
    work_id      uuid NOT NULL,
    revision     integer NOT NULL,
    send_number  integer NOT NULL,
    scheduled_at timestamptz NOT NULL,
    created_at   timestamptz NOT NULL,
    sent_at      timestamptz,
    raw_body     text,  -- unreadable message to send again unchanged; work_id is then its dead letter's id
    UNIQUE (worker, work_id, revision, send_number)
);
CREATE INDEX outbox_pending ON outbox (worker, scheduled_at) WHERE sent_at IS NULL;
CREATE INDEX outbox_sent ON outbox (sent_at) WHERE sent_at IS NOT NULL;
-- Deleting a tenant searches every table that references it.
CREATE INDEX outbox_by_tenant ON outbox (tenant_id);

-- Finished attempts. An attempt is written when it is settled, or when its loss is detected.
CREATE TABLE work_attempt (
    id              uuid PRIMARY KEY DEFAULT uuidv7(),
    tenant_id       uuid REFERENCES tenant (id) ON DELETE CASCADE,
    worker          text NOT NULL,
    work_id         uuid NOT NULL,
    revision        integer NOT NULL,
    number          integer NOT NULL,  -- a deferred attempt has the same number as the next attempt
    started_at      timestamptz NOT NULL,
    ended_at        timestamptz NOT NULL,
    outcome         text NOT NULL CHECK (outcome IN ('succeeded', 'skipped', 'retry', 'deferred', 'failed', 'worker_lost')),
    error_type      text,
    error           text,
    next_attempt_at timestamptz,
    trace_id        text CHECK (trace_id ~ '^1-[0-9a-f]{8}-[0-9a-f]{24}$')  -- X-Ray trace id
);
CREATE INDEX work_attempt_by_work ON work_attempt (work_id, worker, ended_at);
CREATE INDEX work_attempt_by_age ON work_attempt (ended_at);
CREATE INDEX work_attempt_by_tenant ON work_attempt (tenant_id);

-- Circuit breakers. They do not belong to a tenant, because tenants share all services except destinations. Processes
-- read and change them in transactions of the delivery role. The worker role cannot see them.
CREATE TABLE breaker (
    name       text PRIMARY KEY,                -- llm:<provider>, ocr:textract, webhook:<host>, destination:<id>
    generation bigint NOT NULL DEFAULT 0,       -- increases with each transition, so results of older calls are ignored
    failures   integer NOT NULL DEFAULT 0,      -- consecutive failures while closed
    open_count integer NOT NULL DEFAULT 0,      -- consecutive openings; each doubles the time open, up to a limit
    opened_at  timestamptz,                     -- NULL: closed
    open_until timestamptz,                     -- no calls before this time; while is_probing: no other probe
    is_probing boolean NOT NULL DEFAULT false,
    CHECK ((opened_at IS NULL) = (open_until IS NULL) AND (opened_at IS NULL) = (open_count = 0)),
    CHECK (opened_at IS NOT NULL OR NOT is_probing)
);
GRANT SELECT, INSERT, UPDATE ON breaker TO counterfoil_delivery;

-- The watchdog's pauses of event source mappings. A mapping serves all tenants, so a row has no tenant.
-- pausing: the watchdog is about to disable the mapping, or crashed after doing so.
-- paused: the watchdog disabled the mapping and must enable it again.
-- released: the watchdog must not enable the mapping, because it already did, or because an operator took over.
CREATE TABLE breaker_mapping_pause (
    mapping           uuid PRIMARY KEY,
    status            text NOT NULL CHECK (status IN ('pausing', 'paused', 'released')),
    breaker_opened_at timestamptz NOT NULL,           -- the breaker's opened_at in the outage that caused the pause
    intended_at       timestamptz NOT NULL            -- when the watchdog last decided to disable the mapping
);
GRANT SELECT, INSERT, UPDATE ON breaker_mapping_pause TO counterfoil_delivery;

DO $security$
DECLARE
    table_name text;
BEGIN
    FOREACH table_name IN ARRAY ARRAY['outbox', 'work_attempt'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', table_name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', table_name);
        EXECUTE format($policy$CREATE POLICY own_tenant ON %I TO counterfoil_worker
            USING (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)
            WITH CHECK (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)$policy$, table_name);
    END LOOP;
END
$security$;

-- Workers enqueue messages, and the delivery role sends them.
CREATE POLICY delivery ON outbox TO counterfoil_delivery USING (true) WITH CHECK (true);
GRANT SELECT, INSERT ON outbox TO counterfoil_worker, counterfoil_delivery;
GRANT UPDATE (sent_at, scheduled_at), DELETE ON outbox TO counterfoil_delivery;

GRANT SELECT, INSERT ON work_attempt TO counterfoil_worker;
-- The delivery role records attempts whose worker was lost.
CREATE POLICY delivery ON work_attempt FOR INSERT TO counterfoil_delivery WITH CHECK (true);
GRANT INSERT ON work_attempt TO counterfoil_delivery;
-- The watchdog deletes attempts after their retention.
CREATE POLICY retention ON work_attempt TO counterfoil_maintenance
    USING (ended_at < now() - interval '90 days') WITH CHECK (false);
GRANT SELECT (id, ended_at), DELETE ON work_attempt TO counterfoil_maintenance;
-- The delivery role sees the outcomes of all tenants' attempts, but not their errors.
CREATE POLICY delivery_select ON work_attempt FOR SELECT TO counterfoil_delivery USING (true);
GRANT SELECT (id, worker, work_id, outcome) ON work_attempt TO counterfoil_delivery;

-- Returns attempts without a tenant, for the timeline of an unassigned dead letter. The delivery role must not read
-- other attempts' errors, because they can quote a tenant's documents.
CREATE POLICY owner_select ON work_attempt FOR SELECT TO counterfoil_owner USING (true);
CREATE FUNCTION unassigned_attempts(worker_name text, work_item_id uuid, max_rows integer)
RETURNS TABLE (revision integer, number integer, started_at timestamptz, ended_at timestamptz, outcome text,
               error_type text, error text, next_attempt_at timestamptz, trace_id text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp
AS $body$
    SELECT a.revision, a.number, a.started_at, a.ended_at, a.outcome, a.error_type, a.error, a.next_attempt_at,
        a.trace_id
    FROM work_attempt a
    WHERE a.work_id = work_item_id AND a.worker = worker_name AND a.tenant_id IS NULL
    ORDER BY a.ended_at DESC, a.id DESC LIMIT max_rows
$body$;
REVOKE ALL ON FUNCTION unassigned_attempts FROM PUBLIC;
GRANT EXECUTE ON FUNCTION unassigned_attempts TO counterfoil_delivery;

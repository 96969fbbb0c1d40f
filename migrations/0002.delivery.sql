-- depends: 0001.tenants
-- What delivery keeps for every worker: the outbox, dead letters with their audit trail, notifications.

-- Claim tokens only grow, over all kinds of work: the newest claim always has the highest token.
CREATE SEQUENCE claim_token AS bigint;
GRANT USAGE ON SEQUENCE claim_token TO counterfoil_worker, counterfoil_delivery;

-- A row is a message owed to a worker's queue. The message says only which work, revision and send number it is.
CREATE TABLE outbox (
    id          uuid PRIMARY KEY DEFAULT uuidv7(),
    tenant_id   uuid REFERENCES tenant (id) ON DELETE CASCADE,
    worker      text NOT NULL,
    work_id     uuid NOT NULL,
    revision    integer NOT NULL,
    send_number integer NOT NULL,
    not_before  timestamptz NOT NULL,
    created_at  timestamptz NOT NULL,
    sent_at     timestamptz,
    UNIQUE (worker, work_id, revision, send_number)
);
CREATE INDEX outbox_unsent ON outbox (worker, not_before) WHERE sent_at IS NULL;
CREATE INDEX outbox_sent ON outbox (sent_at) WHERE sent_at IS NOT NULL;

-- Work that ended in failure. job_id names one worker's job for ever: a second death re-opens its row.
CREATE TABLE dead_letter (
    job_id        uuid PRIMARY KEY,
    tenant_id     uuid REFERENCES tenant (id) ON DELETE CASCADE,
    worker        text NOT NULL,
    work_id       uuid,
    revision      integer,
    task_type     text NOT NULL,
    payload       jsonb NOT NULL,
    metadata      jsonb NOT NULL,
    attempts      integer NOT NULL,
    fingerprint   text NOT NULL,
    lineage       jsonb NOT NULL DEFAULT '[]',
    dlq_reason    text NOT NULL CHECK (dlq_reason IN ('non_retriable_error', 'max_retries_exceeded')),
    dlq_timestamp timestamptz NOT NULL,
    status        text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'retried', 'resolved', 'ignored')),
    resolution    jsonb,
    resolved_at   timestamptz,
    resolved_by   text,
    CHECK ((work_id IS NULL) = (revision IS NULL))
);
CREATE INDEX dead_letter_by_status ON dead_letter (status, dlq_timestamp DESC);
CREATE INDEX dead_letter_by_type ON dead_letter (task_type, status);

-- Append-only: no role may change or delete a row. Ids and hashes only, no payload.
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

-- Exactly one for each failure; sending them is the outbox's kind of work: at least once.
CREATE TABLE notification (
    id          uuid PRIMARY KEY DEFAULT uuidv7(),
    tenant_id   uuid REFERENCES tenant (id) ON DELETE CASCADE,
    worker      text NOT NULL,
    job_id      uuid NOT NULL,
    revision    integer NOT NULL,  -- 0 for a message that names no work
    fingerprint text NOT NULL,
    payload     jsonb NOT NULL,
    created_at  timestamptz NOT NULL,
    sent_at     timestamptz,
    UNIQUE (job_id, revision)
);
CREATE INDEX notification_unsent ON notification (created_at) WHERE sent_at IS NULL;

DO $security$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['outbox', 'dead_letter', 'dead_letter_audit', 'notification'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format($policy$CREATE POLICY own_tenant ON %I TO counterfoil_worker
            USING (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)
            WITH CHECK (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)$policy$, name);
        EXECUTE format('CREATE POLICY delivery ON %I TO counterfoil_delivery USING (true) WITH CHECK (true)', name);
    END LOOP;
END
$security$;

-- A worker owes messages and notifications and writes dead letters; delivery sends, and settles what crashed.
GRANT SELECT, INSERT ON outbox, dead_letter, dead_letter_audit, notification TO counterfoil_worker, counterfoil_delivery;
GRANT UPDATE ON dead_letter TO counterfoil_worker, counterfoil_delivery;
GRANT UPDATE (sent_at, not_before), DELETE ON outbox TO counterfoil_delivery;

-- Failure notifications, which the watchdog (counterfoil_maintenance) sends. Workers and the delivery role cannot
-- change them, or see other tenants' addresses.

-- Notifications: the first failure with a fingerprint, or a digest of later failures. A row without deliveries had no
-- recipients.
CREATE TABLE notification_digest (
    id          uuid PRIMARY KEY,
    tenant_id   uuid REFERENCES tenant (id) ON DELETE CASCADE,
    fingerprint text NOT NULL,
    created_at  timestamptz NOT NULL
);
CREATE INDEX notification_digest_by_age ON notification_digest (created_at);
CREATE INDEX notification_digest_by_tenant ON notification_digest (tenant_id);

-- Deliveries of digests, one per recipient and channel.
CREATE TABLE notification_delivery (
    digest_id       uuid NOT NULL REFERENCES notification_digest (id) ON DELETE CASCADE,
    tenant_id       uuid REFERENCES tenant (id) ON DELETE CASCADE,
    channel         text NOT NULL,
    recipient       text NOT NULL,
    attempts        integer NOT NULL DEFAULT 0,
    next_attempt_at timestamptz NOT NULL,  -- during an attempt: time when it is considered lost
    sent_at         timestamptz,
    abandoned_at      timestamptz,
    error           text,
    PRIMARY KEY (digest_id, channel, recipient),
    CHECK (sent_at IS NULL OR abandoned_at IS NULL)
);
CREATE INDEX notification_delivery_pending ON notification_delivery (channel, next_attempt_at)
    WHERE sent_at IS NULL AND abandoned_at IS NULL;
CREATE INDEX notification_delivery_by_tenant ON notification_delivery (tenant_id);

-- Failures to notify of, exactly one row each. Like a message in the outbox, a failure is sent at least once.
CREATE TABLE failure_event (
    id          uuid PRIMARY KEY DEFAULT uuidv7(),
    tenant_id   uuid REFERENCES tenant (id) ON DELETE CASCADE,
    worker      text NOT NULL,
    job_id      uuid NOT NULL,
    revision    integer NOT NULL,  -- 0 for a message without a work item
    fingerprint text NOT NULL,
    payload     jsonb NOT NULL,
    created_at  timestamptz NOT NULL,
    -- The digest that includes the failure. Its deliveries show whether it was sent.
    digest_id   uuid REFERENCES notification_digest (id) ON DELETE CASCADE,
    UNIQUE (job_id, revision)
);
CREATE INDEX failure_event_ungrouped ON failure_event (tenant_id, fingerprint, created_at) WHERE digest_id IS NULL;
CREATE INDEX failure_event_by_digest ON failure_event (digest_id, created_at);
CREATE INDEX failure_event_by_tenant ON failure_event (tenant_id);

DO $security$
DECLARE
    table_name text;
BEGIN
    FOREACH table_name IN ARRAY ARRAY['failure_event'] LOOP
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
    FOREACH table_name IN ARRAY ARRAY['notification_digest', 'notification_delivery'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', table_name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', table_name);
        EXECUTE format($policy$CREATE POLICY own_tenant ON %I FOR SELECT TO counterfoil_worker
            USING (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)$policy$, table_name);
        EXECUTE format('CREATE POLICY maintenance ON %I TO counterfoil_maintenance USING (true) WITH CHECK (true)',
                       table_name);
    END LOOP;
END
$security$;
CREATE POLICY delivery ON failure_event TO counterfoil_delivery USING (true) WITH CHECK (true);

GRANT SELECT, INSERT ON failure_event TO counterfoil_worker, counterfoil_delivery;
GRANT UPDATE (digest_id) ON failure_event TO counterfoil_maintenance;
GRANT SELECT ON notification_digest TO counterfoil_worker, counterfoil_maintenance;
GRANT SELECT (digest_id, tenant_id, channel, attempts, next_attempt_at, sent_at, abandoned_at,
    error) ON notification_delivery
    TO counterfoil_worker;
GRANT INSERT, DELETE ON notification_digest TO counterfoil_maintenance;
GRANT SELECT, INSERT, UPDATE (attempts, next_attempt_at, sent_at, abandoned_at, error) ON notification_delivery
    TO counterfoil_maintenance;

-- Notifications of failures. The watchdog sends them (counterfoil_keeper); documents' workers and the delivery role,
-- which every worker may take, change none of them and see no other tenant's addresses.

-- A message to people: the first failure of a fingerprint alone, or later ones of it as a digest. A notice without
-- deliveries had no recipients.
CREATE TABLE notice (
    id          uuid PRIMARY KEY,
    tenant_id   uuid REFERENCES tenant (id) ON DELETE CASCADE,
    fingerprint text NOT NULL,
    created_at  timestamptz NOT NULL
);
CREATE INDEX notice_by_age ON notice (created_at);
CREATE INDEX notice_by_tenant ON notice (tenant_id);

-- Delivery of a notice to one recipient by one channel.
CREATE TABLE notice_delivery (
    notice_id       uuid NOT NULL REFERENCES notice (id) ON DELETE CASCADE,
    tenant_id       uuid REFERENCES tenant (id) ON DELETE CASCADE,
    channel         text NOT NULL,
    recipient       text NOT NULL,
    attempts        integer NOT NULL DEFAULT 0,
    next_attempt_at timestamptz NOT NULL,  -- during an attempt: when its sender counts as lost
    sent_at         timestamptz,
    abandoned_at    timestamptz,
    error           text,
    PRIMARY KEY (notice_id, channel, recipient),
    CHECK (sent_at IS NULL OR abandoned_at IS NULL)
);
CREATE INDEX notice_delivery_owed ON notice_delivery (channel, next_attempt_at)
    WHERE sent_at IS NULL AND abandoned_at IS NULL;
CREATE INDEX notice_delivery_by_tenant ON notice_delivery (tenant_id);

-- Exactly one for each failure. Sending is at least once, as from the outbox.
CREATE TABLE notification (
    id          uuid PRIMARY KEY DEFAULT uuidv7(),
    tenant_id   uuid REFERENCES tenant (id) ON DELETE CASCADE,
    worker      text NOT NULL,
    job_id      uuid NOT NULL,
    revision    integer NOT NULL,  -- 0 for a message that names no work item
    fingerprint text NOT NULL,
    payload     jsonb NOT NULL,
    created_at  timestamptz NOT NULL,
    notice_id   uuid REFERENCES notice (id) ON DELETE CASCADE,  -- whose deliveries record whether it was sent
    UNIQUE (job_id, revision)
);
CREATE INDEX notification_untold ON notification (tenant_id, fingerprint, created_at) WHERE notice_id IS NULL;
CREATE INDEX notification_by_notice ON notification (notice_id, created_at);
CREATE INDEX notification_by_tenant ON notification (tenant_id);

DO $security$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['notification'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format($policy$CREATE POLICY own_tenant ON %I TO counterfoil_worker
            USING (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)
            WITH CHECK (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)$policy$, name);
    END LOOP;
END
$security$;
DO $security$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['notice', 'notice_delivery'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format($policy$CREATE POLICY own_tenant ON %I FOR SELECT TO counterfoil_worker
            USING (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)$policy$, name);
        EXECUTE format('CREATE POLICY keeper ON %I TO counterfoil_keeper USING (true) WITH CHECK (true)', name);
    END LOOP;
END
$security$;
CREATE POLICY delivery ON notification TO counterfoil_delivery USING (true) WITH CHECK (true);

GRANT SELECT, INSERT ON notification TO counterfoil_worker, counterfoil_delivery;
GRANT UPDATE (notice_id) ON notification TO counterfoil_keeper;
GRANT SELECT ON notice TO counterfoil_worker, counterfoil_keeper;
GRANT SELECT (notice_id, tenant_id, channel, attempts, next_attempt_at, sent_at, abandoned_at, error) ON notice_delivery
    TO counterfoil_worker;
GRANT INSERT, DELETE ON notice TO counterfoil_keeper;
GRANT SELECT, INSERT, UPDATE (attempts, next_attempt_at, sent_at, abandoned_at, error) ON notice_delivery
    TO counterfoil_keeper;

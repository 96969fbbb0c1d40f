-- depends: 0005.llm
-- Who is told of failures, and how far the telling has come. The watchdog tells (counterfoil_keeper); documents' workers
-- and the delivery role, which every worker may take, change none of it and see no other tenant's addresses.

-- Whom a tenant's failures are told to by e-mail, beside those who hear of every tenant's.
CREATE TABLE tenant_admin (
    tenant_id  uuid NOT NULL REFERENCES tenant (id) ON DELETE CASCADE,
    email      text NOT NULL CHECK (length(email) <= 254 AND email ~ '^[!-~]+@[!-~]+$'),
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, email)
);

-- What people are told at once: the first failure of a fingerprint alone, those that follow it within a while together.
-- A notice without deliveries had nobody to go to.
CREATE TABLE notice (
    id          uuid PRIMARY KEY,
    tenant_id   uuid REFERENCES tenant (id) ON DELETE CASCADE,
    fingerprint text NOT NULL,
    created_at  timestamptz NOT NULL
);
CREATE INDEX notice_by_age ON notice (created_at);

-- A notice on its way to one recipient by one channel.
CREATE TABLE notice_delivery (
    notice_id       uuid NOT NULL REFERENCES notice (id) ON DELETE CASCADE,
    tenant_id       uuid REFERENCES tenant (id) ON DELETE CASCADE,
    channel         text NOT NULL,
    recipient       text NOT NULL,
    attempts        integer NOT NULL DEFAULT 0,
    next_attempt_at timestamptz NOT NULL,  -- while a sender has it: when it is taken to be lost
    sent_at         timestamptz,
    abandoned_at    timestamptz,
    error           text,
    PRIMARY KEY (notice_id, channel, recipient),
    CHECK (sent_at IS NULL OR abandoned_at IS NULL)
);
CREATE INDEX notice_delivery_owed ON notice_delivery (channel, next_attempt_at)
    WHERE sent_at IS NULL AND abandoned_at IS NULL;

-- Whether a notification was told, is its notice's deliveries' to say.
DROP INDEX notification_unsent;
ALTER TABLE notification DROP COLUMN sent_at, ADD COLUMN notice_id uuid REFERENCES notice (id) ON DELETE CASCADE;
CREATE INDEX notification_untold ON notification (tenant_id, fingerprint, created_at) WHERE notice_id IS NULL;
CREATE INDEX notification_by_notice ON notification (notice_id, created_at);

DO $security$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['tenant_admin', 'notice', 'notice_delivery'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format($policy$CREATE POLICY own_tenant ON %I FOR SELECT TO counterfoil_worker
            USING (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)$policy$, name);
        EXECUTE format('CREATE POLICY keeper ON %I TO counterfoil_keeper USING (true) WITH CHECK (true)', name);
    END LOOP;
END
$security$;
CREATE POLICY onboarding ON tenant_admin TO counterfoil_owner USING (true) WITH CHECK (true);

GRANT SELECT ON tenant_admin, notice TO counterfoil_worker, counterfoil_keeper;
GRANT SELECT (notice_id, tenant_id, channel, attempts, next_attempt_at, sent_at, abandoned_at, error) ON notice_delivery
    TO counterfoil_worker;
GRANT INSERT, DELETE ON notice TO counterfoil_keeper;
GRANT SELECT, INSERT, UPDATE (attempts, next_attempt_at, sent_at, abandoned_at, error) ON notice_delivery TO counterfoil_keeper;
GRANT SELECT (name) ON tenant TO counterfoil_keeper;
GRANT UPDATE (notice_id) ON notification TO counterfoil_keeper;

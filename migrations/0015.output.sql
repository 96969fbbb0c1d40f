-- depends: 0014.mail
-- Where a tenant's results are delivered to, and the jobs that deliver them.

-- A destination is disabled and never deleted: its jobs tell what it was told of and when, and hold no content any more.
CREATE TABLE destination (
    id          uuid PRIMARY KEY DEFAULT uuidv7(),
    tenant_id   uuid NOT NULL REFERENCES tenant (id) ON DELETE CASCADE,
    name        text NOT NULL CHECK (name ~ '^[a-z0-9][a-z0-9-]{0,62}$'),
    kind        text NOT NULL CHECK (kind IN ('webhook', 's3')),
    url         text CHECK (length(url) <= 2048),
    prefix      text CHECK (length(prefix) <= 200),  -- of keys, behind exports/{tenant}/
    events      text[] NOT NULL CHECK (events <@ ARRAY['cluster', 'document'] AND cardinality(events) > 0),
    created_at  timestamptz NOT NULL,
    disabled_at timestamptz,
    CHECK ((kind = 'webhook') = (url IS NOT NULL) AND (kind = 's3') = (prefix IS NOT NULL)),
    UNIQUE (tenant_id, id)
);
CREATE UNIQUE INDEX destination_by_name ON destination (tenant_id, name) WHERE disabled_at IS NULL;
-- Two would write the same files.
CREATE UNIQUE INDEX destination_by_prefix ON destination (tenant_id, prefix) WHERE disabled_at IS NULL;

-- What a webhook is signed with: the newest secret, and while receivers change over to it the one before.
CREATE TABLE destination_secret (
    id             uuid PRIMARY KEY DEFAULT uuidv7(),
    tenant_id      uuid NOT NULL,
    destination_id uuid NOT NULL,
    secret         text NOT NULL CHECK (length(secret) >= 32),
    created_at     timestamptz NOT NULL,
    expires_at     timestamptz,  -- NULL: the newest
    FOREIGN KEY (tenant_id, destination_id) REFERENCES destination (tenant_id, id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX destination_secret_newest ON destination_secret (destination_id) WHERE expires_at IS NULL;
CREATE UNIQUE INDEX destination_secret_expiring ON destination_secret (destination_id) WHERE expires_at IS NOT NULL;

-- What a destination is owed about one cluster or document; a newer state of it is a new revision of the same job.
CREATE TABLE output_job (
    id               uuid PRIMARY KEY,  -- UUIDv5 of destination and subject
    tenant_id        uuid NOT NULL,
    destination_id   uuid NOT NULL,
    subject          text NOT NULL CHECK (subject IN ('cluster', 'document')),
    subject_id       uuid NOT NULL,  -- no foreign key: that it is gone is delivered, too
    schema_version   integer NOT NULL,  -- of the body that this revision is delivered in
    payload          jsonb NOT NULL,
    told_revision    integer NOT NULL DEFAULT 1,  -- of the payload: the same when the same is sent again
    requested_at     timestamptz NOT NULL,  -- when the payload became this one
    delivered_at     timestamptz,
    response_status  integer,
    created_at       timestamptz NOT NULL,
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
    UNIQUE (destination_id, subject, subject_id),
    FOREIGN KEY (tenant_id, destination_id) REFERENCES destination (tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX output_job_status ON output_job (status) WHERE status IN ('pending', 'in-progress');
CREATE INDEX output_job_by_subject ON output_job (tenant_id, subject_id);

-- Whoever changes what is told, and none that only sends it again, as a person does with a dead letter.
CREATE FUNCTION count_told() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
    NEW.told_revision := OLD.told_revision + 1;
    RETURN NEW;
END
$body$;
CREATE TRIGGER count_told BEFORE UPDATE OF payload ON output_job FOR EACH ROW
WHEN (OLD.payload IS DISTINCT FROM NEW.payload) EXECUTE FUNCTION count_told();

DO $security$
DECLARE
    name text;
    life_cycle text := 'status, error, attempts, failed_at, revision, claim_token, claimed_at, lease_expires_at, '
                       'next_attempt_at, send_number, returns, reason';
BEGIN
    FOREACH name IN ARRAY ARRAY['destination', 'destination_secret', 'output_job'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format($policy$CREATE POLICY own_tenant ON %I TO counterfoil_worker
            USING (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)
            WITH CHECK (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)$policy$, name);
        EXECUTE format('GRANT SELECT ON %I TO counterfoil_worker', name);
        EXECUTE format('CREATE POLICY onboarding ON %I TO counterfoil_owner USING (true) WITH CHECK (true)', name);
    END LOOP;
    EXECUTE format('GRANT INSERT, UPDATE (schema_version, payload, requested_at, delivered_at, response_status, %s) '
                   'ON output_job TO counterfoil_worker', life_cycle);
    -- Delivery sees and moves the life cycle of all tenants' work, and no content.
    CREATE POLICY delivery ON output_job TO counterfoil_delivery USING (true) WITH CHECK (true);
    EXECUTE format('GRANT SELECT (id, tenant_id, created_at, %s), UPDATE (%s) ON output_job TO counterfoil_delivery',
                   life_cycle, life_cycle);
END
$security$;

-- A dead letter names what was to be delivered, and where to.
GRANT SELECT (destination_id, subject, subject_id) ON output_job TO counterfoil_delivery;
CREATE POLICY delivery ON destination FOR SELECT TO counterfoil_delivery USING (true);
GRANT SELECT (id, name) ON destination TO counterfoil_delivery;

-- depends: 0002.delivery
-- Sources, documents, and the jobs of the workers that make them.
-- The life cycle of work has the same columns everywhere: status, error, attempts, failed_at, revision, claim_token,
-- claimed_at, lease_expires_at, next_attempt_at, send_number, returns, reason. A document carries them with the prefix matching_.

-- One S3 object event. The row is inserted with its first claim, since the event comes from outside.
CREATE TABLE acquisition_job (
    id               uuid PRIMARY KEY,
    tenant_id        uuid REFERENCES tenant (id) ON DELETE CASCADE,  -- NULL: the key names no tenant that exists
    bucket           text NOT NULL,
    key              text NOT NULL,
    version          text,  -- the object's version, where the bucket keeps versions
    sequencer        text NOT NULL,
    size             bigint NOT NULL,
    created_at       timestamptz NOT NULL,
    status           text DEFAULT 'pending' CHECK (status IN ('pending', 'in-progress', 'succeeded', 'failed')),
    error            text,
    attempts         integer NOT NULL DEFAULT 0,
    failed_at        timestamptz,
    revision         integer NOT NULL DEFAULT 1,
    claim_token      bigint NOT NULL DEFAULT 0,
    claimed_at       timestamptz,
    lease_expires_at timestamptz,
    next_attempt_at  timestamptz,
    send_number      integer NOT NULL DEFAULT 0,
    returns          integer NOT NULL DEFAULT 0,
    reason           text,
    UNIQUE (bucket, key, sequencer),
    UNIQUE (tenant_id, id)
);
CREATE INDEX acquisition_job_status ON acquisition_job (status) WHERE status IN ('pending', 'in-progress');

-- Where documents came from: one upload, one mail.
CREATE TABLE source (
    id          uuid PRIMARY KEY DEFAULT uuidv7(),
    tenant_id   uuid NOT NULL REFERENCES tenant (id) ON DELETE CASCADE,
    job_id      uuid NOT NULL UNIQUE,
    kind        text NOT NULL CHECK (kind IN ('upload')),
    bucket      text NOT NULL,
    key         text NOT NULL,
    received_at timestamptz NOT NULL,
    UNIQUE (tenant_id, id),
    FOREIGN KEY (tenant_id, job_id) REFERENCES acquisition_job (tenant_id, id) ON DELETE CASCADE
);

CREATE TABLE document (
    id              uuid PRIMARY KEY DEFAULT uuidv7(),
    tenant_id       uuid NOT NULL REFERENCES tenant (id) ON DELETE CASCADE,
    source_id       uuid NOT NULL,
    bucket          text NOT NULL,
    key             text NOT NULL,
    version         text,
    file_name       text NOT NULL,
    size            bigint NOT NULL,
    content_hash    bytea NOT NULL CHECK (length(content_hash) = 32),  -- SHA-256
    received_at     timestamptz NOT NULL,
    seen_again      integer NOT NULL DEFAULT 0,
    last_seen_at    timestamptz NOT NULL,
    type            text CHECK (type IN ('invoice', 'credit_note', 'purchase_order', 'order_confirmation', 'delivery_note',
                                         'goods_receipt', 'contract', 'other')),
    method          text,
    structured_data jsonb,
    cluster_id      uuid,

    matching_status           text CHECK (matching_status IN ('pending', 'in-progress', 'succeeded', 'failed')),
    matching_error            text,
    matching_attempts         integer NOT NULL DEFAULT 0,
    matching_failed_at        timestamptz,
    matching_revision         integer NOT NULL DEFAULT 0,
    matching_claim_token      bigint NOT NULL DEFAULT 0,
    matching_claimed_at       timestamptz,
    matching_lease_expires_at timestamptz,
    matching_next_attempt_at  timestamptz,
    matching_send_number      integer NOT NULL DEFAULT 0,
    matching_returns          integer NOT NULL DEFAULT 0,
    matching_reason           text,

    UNIQUE (tenant_id, id),
    UNIQUE (tenant_id, content_hash),
    FOREIGN KEY (tenant_id, source_id) REFERENCES source (tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX idx_document_matching_status ON document (matching_status) WHERE matching_status IS NOT NULL;
CREATE INDEX document_by_cluster ON document (tenant_id, cluster_id);

-- The ingestion of a document; its id is the document's.
CREATE TABLE ingestion_job (
    id               uuid PRIMARY KEY,
    tenant_id        uuid NOT NULL,
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
    FOREIGN KEY (tenant_id, id) REFERENCES document (tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX ingestion_job_status ON ingestion_job (status) WHERE status IN ('pending', 'in-progress');

DO $security$
DECLARE
    name text;
    life_cycle text := 'status, error, attempts, failed_at, revision, claim_token, claimed_at, lease_expires_at, '
                       'next_attempt_at, send_number, returns, reason';
    matching text := 'matching_' || replace(life_cycle, ', ', ', matching_');
BEGIN
    FOREACH name IN ARRAY ARRAY['acquisition_job', 'source', 'document', 'ingestion_job'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format($policy$CREATE POLICY own_tenant ON %I TO counterfoil_worker
            USING (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)
            WITH CHECK (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)$policy$, name);
        EXECUTE format('GRANT SELECT ON %I TO counterfoil_worker', name);
    END LOOP;
    -- A worker adds, and changes what it finds out; where a file came from stays as it was written, and nothing is deleted.
    GRANT INSERT ON source, document, ingestion_job TO counterfoil_worker;
    EXECUTE format('GRANT UPDATE (%s) ON acquisition_job, ingestion_job TO counterfoil_worker', life_cycle);
    EXECUTE format('GRANT UPDATE (seen_again, last_seen_at, type, method, structured_data, cluster_id, %s) ON document '
                   'TO counterfoil_worker', matching);
    -- Delivery sees and moves the life cycle of all tenants' work, column by column, and no content.
    FOREACH name IN ARRAY ARRAY['acquisition_job', 'ingestion_job'] LOOP
        EXECUTE format('CREATE POLICY delivery ON %I TO counterfoil_delivery USING (true) WITH CHECK (true)', name);
        EXECUTE format('GRANT SELECT (id, tenant_id, created_at, %s), UPDATE (%s) ON %I TO counterfoil_delivery',
                       life_cycle, life_cycle, name);
    END LOOP;
    CREATE POLICY delivery ON document TO counterfoil_delivery USING (true) WITH CHECK (true);
    EXECUTE format('GRANT SELECT (id, tenant_id, %s), UPDATE (%s) ON document TO counterfoil_delivery', matching, matching);
END
$security$;

-- An S3 event brings its own job, and finds the tenant that its key names.
GRANT SELECT (bucket, key), INSERT (id, tenant_id, bucket, key, version, sequencer, size, created_at)
    ON acquisition_job TO counterfoil_delivery;
-- A dead letter names the file it is about, and when it came.
GRANT SELECT (bucket, key, file_name, received_at) ON document TO counterfoil_delivery;

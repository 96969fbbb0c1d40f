-- Sources and documents, and the acquisition of their files. Work items of every kind have the same life
-- cycle columns: status, error, attempts, failed_at, revision, claim_token, claimed_at, lease_expires_at,
-- next_attempt_at, send_number, dlq_returns, skip_reason. In table document, they have the prefix matching_.

-- Jobs that acquire S3 objects. The first claim inserts the row, because the event comes from S3 and not from the
-- outbox. An email has one job without a tenant, and one job for each tenant that it is addressed to.
CREATE TABLE acquisition_job (
    id               uuid PRIMARY KEY,
    tenant_id        uuid REFERENCES tenant (id) ON DELETE CASCADE,  -- NULL: an email, or an unknown tenant in the key
    bucket           text NOT NULL,
    key              text NOT NULL,
    version          text,  -- object version, if the bucket is versioned
    sequencer        text,  -- NULL: no event has arrived, and the object was found by listing the bucket
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
    dlq_returns      integer NOT NULL DEFAULT 0,
    skip_reason      text,
    UNIQUE (tenant_id, id)
);
CREATE INDEX acquisition_job_status ON acquisition_job (status) WHERE status IN ('pending', 'in-progress');
-- Jobs found by listing the bucket have no sequencer, because a listing contains versions but no sequencers.
CREATE UNIQUE INDEX acquisition_job_object ON acquisition_job (bucket, key, coalesce(version, sequencer), tenant_id)
    NULLS NOT DISTINCT;
CREATE INDEX acquisition_job_failed ON acquisition_job (tenant_id, created_at DESC, id DESC) WHERE status = 'failed';
CREATE INDEX acquisition_job_by_arrival ON acquisition_job (tenant_id, created_at, id);
CREATE INDEX acquisition_job_without_event ON acquisition_job (created_at) WHERE sequencer IS NULL;

-- Sources of documents: uploads and emails.
CREATE TABLE source (
    id               uuid PRIMARY KEY DEFAULT uuidv7(),
    tenant_id        uuid NOT NULL REFERENCES tenant (id) ON DELETE CASCADE,
    job_id           uuid NOT NULL UNIQUE,
    kind             text NOT NULL CHECK (kind IN ('upload', 'mail')),
    bucket           text NOT NULL,
    key              text NOT NULL,
    received_at      timestamptz NOT NULL,
    sender           text,
    subject          text,
    message_id       text,   -- without its angle brackets
    attachments      jsonb,  -- each file in an email or archive, with its outcome
    rejection_reason text CHECK (  -- why no file was accepted
        rejection_reason IN ('virus', 'spam', 'on_hold', 'rejected', 'duplicate', 'no_files', 'no_documents')
    ),
    spf              text,   -- results from Amazon SES (RFC 8601), such as pass and fail; NULL: none in the email
    dkim             text,
    dmarc            text,
    hold             text CHECK (hold IN ('held', 'released', 'rejected')),
    content_hash     bytea CHECK (octet_length(content_hash) = 32),  -- NULL: an email or an archive
    UNIQUE (tenant_id, id),
    FOREIGN KEY (tenant_id, job_id) REFERENCES acquisition_job (tenant_id, id) ON DELETE CASCADE
);
-- Finds duplicate emails. Rejected emails are excluded. The index is not unique, because an operator can declare that
-- an email with a known Message-ID and sender is not a duplicate. A lock serializes duplicates that arrive at the same
-- time. The key is a hash, because an index entry has at most 2,704 bytes and both values can be longer.
CREATE INDEX source_by_message ON source (tenant_id, md5(message_id || ' ' || coalesce(sender, '')))
    WHERE message_id IS NOT NULL AND rejection_reason IS NULL;
CREATE INDEX source_by_hold ON source (tenant_id, hold, received_at, id) WHERE hold IS NOT NULL;
-- Finds earlier files with the same content, because a duplicate upload must not create a second document.
CREATE INDEX source_by_content ON source (tenant_id, content_hash) WHERE content_hash IS NOT NULL;
CREATE INDEX source_by_part ON source USING gin (attachments jsonb_path_ops) WHERE attachments IS NOT NULL;

-- Documents. Later migrations add the columns for matching and extraction.
CREATE TABLE document (
    id                uuid PRIMARY KEY DEFAULT uuidv7(),
    tenant_id         uuid NOT NULL REFERENCES tenant (id) ON DELETE CASCADE,
    source_id         uuid NOT NULL,
    bucket            text NOT NULL,
    key               text NOT NULL,
    version           text,
    file_name         text NOT NULL,
    size              bigint NOT NULL,
    content_hash      bytea NOT NULL CHECK (length(content_hash) = 32),  -- SHA-256
    received_at       timestamptz NOT NULL,
    duplicate_uploads integer NOT NULL DEFAULT 0,
    last_duplicate_at timestamptz NOT NULL,
    type              text CHECK (type IN ('invoice', 'credit_note', 'purchase_order', 'order_confirmation',
        'delivery_note',
                                         'goods_receipt', 'contract', 'other')),
    method            text,
    structured_data   jsonb,
    cluster_id        uuid,
    UNIQUE (tenant_id, id),
    UNIQUE (tenant_id, content_hash),
    FOREIGN KEY (tenant_id, source_id) REFERENCES source (tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX document_by_cluster ON document (tenant_id, cluster_id);
-- Finds the documents of a redelivered email or a deleted source.
CREATE INDEX document_by_source ON document (source_id);
CREATE INDEX document_by_received_at ON document (tenant_id, received_at, id);
-- For searches by the end of an id, which the console's tables show.
CREATE INDEX document_by_id_suffix ON document (reverse(right(id::text, 8)) COLLATE "C");
-- Attachments with the same content share one object.
CREATE INDEX document_by_key ON document (tenant_id, key);

-- Progress of the listing of a prefix, which finds uploads whose S3 event was lost. The listing continues after the
-- markers, and starts over when it is complete.
CREATE TABLE upload_listing (
    bucket         text NOT NULL,
    prefix         text NOT NULL,
    key_marker     text,  -- NULL: start of the listing
    version_marker text,
    started_at     timestamptz NOT NULL,
    is_complete    boolean NOT NULL,
    complete_since timestamptz,  -- when the last complete listing began
    PRIMARY KEY (bucket, prefix)
);

-- Progress of reading a prefix's S3 inventory, which replaces the listing of a large bucket. Reading continues in the
-- file after `files_read` files, after `rows_read` rows.
CREATE TABLE upload_inventory (
    bucket         text NOT NULL,
    prefix         text NOT NULL,
    manifest       text,  -- S3 key; NULL: no inventory found yet
    checksum       text,  -- MD5 of the manifest
    files_read     integer NOT NULL,
    rows_read      bigint NOT NULL,
    started_at     timestamptz NOT NULL,
    is_complete    boolean NOT NULL,
    complete_since timestamptz NOT NULL,  -- start of the last complete inventory; initially the creation of the row
    PRIMARY KEY (bucket, prefix)
);

-- Creation time up to which jobs without an event have been counted. A job is counted once its event can no longer
-- arrive.
CREATE TABLE upload_event_check (
    bucket        text PRIMARY KEY,
    counted_until timestamptz NOT NULL
);
GRANT SELECT, INSERT, UPDATE ON upload_listing, upload_inventory, upload_event_check TO counterfoil_delivery;

DO $security$
DECLARE
    table_name text;
BEGIN
    FOREACH table_name IN ARRAY ARRAY['acquisition_job', 'source', 'document'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', table_name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', table_name);
        EXECUTE format($policy$CREATE POLICY own_tenant ON %I TO counterfoil_worker
            USING (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)
            WITH CHECK (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)$policy$, table_name);
    END LOOP;
END
$security$;
-- The delivery role reads and changes the life cycle columns of all tenants' work items, but sees no content.
CREATE POLICY delivery ON acquisition_job TO counterfoil_delivery USING (true) WITH CHECK (true);
CREATE POLICY delivery ON document TO counterfoil_delivery USING (true) WITH CHECK (true);

GRANT SELECT, UPDATE (status, error, attempts, failed_at, revision, claim_token, claimed_at, lease_expires_at,
                      next_attempt_at, send_number, dlq_returns, skip_reason) ON acquisition_job TO counterfoil_worker;
-- An S3 event creates a job with the tenant that the key names. If a file arrives before its tenant is created, the job
-- is assigned to the tenant when its message is sent again. A late event adds its sequencer to an existing job.
GRANT SELECT (id, tenant_id, bucket, key, version, sequencer, size, created_at, status, error, attempts, failed_at,
              revision, claim_token, claimed_at, lease_expires_at, next_attempt_at, send_number, dlq_returns,
                  skip_reason),
      INSERT (id, tenant_id, bucket, key, version, sequencer, size, created_at),
      UPDATE (tenant_id, sequencer, status, error, attempts, failed_at, revision, claim_token, claimed_at,
              lease_expires_at, next_attempt_at, send_number, dlq_returns, skip_reason)
    ON acquisition_job TO counterfoil_delivery;

-- Workers add rows and change extracted fields. They cannot change a file's origin or delete rows. A later revision of
-- the job can find other files in the same email.
GRANT SELECT, INSERT, UPDATE (attachments, rejection_reason, hold) ON source TO counterfoil_worker;
-- The delivery role may only look up a source's tenant by id.
CREATE POLICY delivery ON source FOR SELECT TO counterfoil_delivery USING (true);
GRANT SELECT (id, tenant_id) ON source TO counterfoil_delivery;

GRANT SELECT, INSERT, UPDATE (duplicate_uploads, last_duplicate_at, type, method, structured_data,
    cluster_id) ON document
    TO counterfoil_worker;
-- A dead letter contains the file's name and the time when it was received.
GRANT SELECT (id, tenant_id, bucket, key, file_name, received_at) ON document TO counterfoil_delivery;

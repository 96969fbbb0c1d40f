-- Destinations for a tenant's results, and the jobs that deliver them.

-- Destinations. They are disabled instead of deleted, because their jobs are the record of deliveries.
CREATE TABLE destination (
    id          uuid PRIMARY KEY DEFAULT uuidv7(),
    tenant_id   uuid NOT NULL REFERENCES tenant (id) ON DELETE CASCADE,
    name        text NOT NULL CHECK (name ~ '^[a-z0-9][a-z0-9-]{0,62}$'),
    kind        text NOT NULL CHECK (kind IN ('webhook', 's3')),
    url         text CHECK (length(url) <= 2048),
    prefix      text CHECK (length(prefix) <= 200),  -- key prefix after exports/{tenant}/
    events      text[] NOT NULL CHECK (events <@ ARRAY['cluster', 'document', 'offers'] AND cardinality(events) > 0),
    created_at  timestamptz NOT NULL,
    disabled_at timestamptz,
    CHECK ((kind = 'webhook') = (url IS NOT NULL) AND (kind = 's3') = (prefix IS NOT NULL)),
    UNIQUE (tenant_id, id)
);
CREATE UNIQUE INDEX destination_by_name ON destination (tenant_id, name) WHERE disabled_at IS NULL;
-- Two destinations with the same prefix would write the same files.
CREATE UNIQUE INDEX destination_by_prefix ON destination (tenant_id, prefix) WHERE disabled_at IS NULL;

-- Secrets that sign calls to a webhook: the newest secret, and for a day also the previous secret.
CREATE TABLE destination_secret (
    id             uuid PRIMARY KEY DEFAULT uuidv7(),
    tenant_id      uuid NOT NULL,
    destination_id uuid NOT NULL,
    secret         text NOT NULL CHECK (length(secret) >= 32),
    created_at     timestamptz NOT NULL,
    expires_at     timestamptz,  -- NULL: the newest secret
    FOREIGN KEY (tenant_id, destination_id) REFERENCES destination (tenant_id, id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX destination_secret_newest ON destination_secret (destination_id) WHERE expires_at IS NULL;
CREATE UNIQUE INDEX destination_secret_expiring ON destination_secret (destination_id) WHERE expires_at IS NOT NULL;

-- Jobs that deliver a cluster, a document or a shard of offers to a destination. A newer state is a new revision of the
-- same job.
CREATE TABLE output_job (
    id               uuid PRIMARY KEY,  -- derived from destination and subject
    tenant_id        uuid NOT NULL,
    destination_id   uuid NOT NULL,
    subject          text NOT NULL CHECK (subject IN ('cluster', 'document', 'offers')),
    subject_id       uuid NOT NULL,  -- no foreign key, because removals are delivered too
    schema_version   integer NOT NULL,  -- schema version of this revision's body
    payload          jsonb NOT NULL,
    payload_revision integer NOT NULL DEFAULT 1,  -- increases with each change of the payload
    requested_at     timestamptz NOT NULL,  -- when the payload last changed
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
    dlq_returns      integer NOT NULL DEFAULT 0,
    skip_reason      text,
    UNIQUE (destination_id, subject, subject_id),
    FOREIGN KEY (tenant_id, destination_id) REFERENCES destination (tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX output_job_status ON output_job (status) WHERE status IN ('pending', 'in-progress');
CREATE INDEX output_job_by_subject ON output_job (tenant_id, subject_id);

-- A changed payload increments payload_revision. Sending the same payload again, such as for a retried dead letter,
-- does not change it.
CREATE FUNCTION increment_payload_revision() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog,
    pg_temp AS $body$
BEGIN
    NEW.payload_revision := OLD.payload_revision + 1;
    RETURN NEW;
END
$body$;
CREATE TRIGGER increment_payload_revision BEFORE UPDATE OF payload ON output_job FOR EACH ROW
WHEN (OLD.payload IS DISTINCT FROM NEW.payload) EXECUTE FUNCTION increment_payload_revision();

DO $security$
DECLARE
    table_name text;
BEGIN
    FOREACH table_name IN ARRAY ARRAY['destination', 'destination_secret', 'output_job'] LOOP
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
    FOREACH table_name IN ARRAY ARRAY['destination', 'destination_secret', 'output_job'] LOOP
        EXECUTE format('CREATE POLICY onboarding ON %I TO counterfoil_owner USING (true) WITH CHECK (true)',
                       table_name);
        EXECUTE format('GRANT SELECT ON %I TO counterfoil_worker', table_name);
    END LOOP;
END
$security$;
GRANT INSERT, UPDATE (schema_version, payload, requested_at, delivered_at, response_status, status, error, attempts,
                      failed_at, revision, claim_token, claimed_at, lease_expires_at, next_attempt_at, send_number,
                      dlq_returns, skip_reason)
    ON output_job TO counterfoil_worker;
-- The delivery role reads and changes the life cycle columns of all tenants' work items, but sees no content. Dead
-- letters contain the subject and the destination's name.
CREATE POLICY delivery ON output_job TO counterfoil_delivery USING (true) WITH CHECK (true);
GRANT SELECT (id, tenant_id, created_at, destination_id, subject, subject_id, status, error, attempts, failed_at,
              revision, claim_token, claimed_at, lease_expires_at, next_attempt_at, send_number, dlq_returns,
                  skip_reason),
      UPDATE (status, error, attempts, failed_at, revision, claim_token, claimed_at, lease_expires_at, next_attempt_at,
              send_number, dlq_returns, skip_reason)
    ON output_job TO counterfoil_delivery;
CREATE POLICY delivery ON destination FOR SELECT TO counterfoil_delivery USING (true);
GRANT SELECT (id, name) ON destination TO counterfoil_delivery;

-- The functions below enqueue a delivery when a document reaches a final state. They are triggers, because workers, the
-- archiver and the watchdog change states, and some of their roles cannot see a document's content. The delivery is
-- part of the transaction: no change is missed, and a change that is rolled back is not delivered.

-- Policies for these functions, which run as the owner with one tenant at a time.
DO $security$
DECLARE
    table_name text;
BEGIN
    FOREACH table_name IN ARRAY ARRAY['outbox', 'dead_letter', 'dead_letter_audit', 'dead_letter_group',
                                      'dead_letter_word', 'dead_letter_count'] LOOP
        EXECUTE format($policy$CREATE POLICY owner_own_tenant ON %I TO counterfoil_owner
            USING (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)
            WITH CHECK (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)$policy$, table_name);
    END LOOP;
END
$security$;

-- Enqueues the delivery of a document's state. The job's id depends only on destination and document. If the payload
-- has changed, a new revision starts, as for any work item (counterfoil.delivery.work.start_revision). If the job had
-- failed, its dead letter is closed. A successful extraction is a final state only for a split file, because all other
-- documents are matched afterwards.
CREATE FUNCTION record_stage_change(
    changed_tenant uuid, changed_document uuid, changed_stage text, new_state text, change_reason text
) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $body$
DECLARE
    previous_tenant text := current_setting('counterfoil.tenant', true);
BEGIN
    IF NOT EXISTS (SELECT FROM destination
                   WHERE tenant_id = changed_tenant AND disabled_at IS NULL AND 'document' = ANY (events)) THEN
        RETURN;
    END IF;
    PERFORM set_config('counterfoil.tenant', changed_tenant::text, true);
    WITH content AS (
        SELECT jsonb_build_object(
            'id', id, 'type', type, 'file_name', file_name,
            'received_at', to_char(received_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
            'state', new_state, 'stage', changed_stage, 'reason', change_reason, 'structured_data', structured_data
        ) AS payload
        FROM document WHERE id = changed_document
          AND (changed_stage = 'matching' OR new_state <> 'succeeded' OR matching_status IS NULL)
    ), enqueued AS (
        INSERT INTO output_job AS job (id, tenant_id, destination_id, subject, subject_id, schema_version, payload,
                                       requested_at, created_at, status, revision, claim_token)
        SELECT md5(format('document_output/%s/document/%s', destination.id, changed_document))::uuid, changed_tenant,
               destination.id, 'document', changed_document, 1, content.payload, now(), now(), 'pending', 1,
               nextval('claim_token')
        FROM destination CROSS JOIN content
        WHERE destination.tenant_id = changed_tenant AND destination.disabled_at IS NULL
          AND 'document' = ANY (destination.events)
        ORDER BY 1
        ON CONFLICT (destination_id, subject, subject_id) DO UPDATE SET schema_version = excluded.schema_version,
            payload = excluded.payload, requested_at = excluded.requested_at, delivered_at = NULL,
            response_status = NULL, status = 'pending', revision = job.revision + 1, send_number = 0,
            claim_token = nextval('claim_token'), error = NULL, skip_reason = NULL, failed_at = NULL, attempts = 0,
            dlq_returns = 0, claimed_at = NULL, lease_expires_at = NULL, next_attempt_at = NULL
        WHERE job.payload <> excluded.payload
        RETURNING job.id, job.revision, job.send_number, old.status = 'failed' AS had_failed
    ), closed AS (
        UPDATE dead_letter SET status = 'retried', version = version + 1, resolved_at = now(), resolved_by = worker,
            resolution = '{"action": "retried", "notes": "A newer result is delivered instead."}'
        FROM enqueued
        WHERE enqueued.had_failed AND dead_letter.task_type = 'document_output' AND dead_letter.status = 'pending'
          AND dead_letter.worker = 'document_output' AND dead_letter.work_id = enqueued.id
        RETURNING dead_letter.tenant_id, dead_letter.job_id, dead_letter.worker, dead_letter.revision,
            dead_letter.version
    ), audited AS (
        INSERT INTO dead_letter_audit (tenant_id, job_id, action, actor, detail, recorded_at)
        SELECT tenant_id, job_id, 'retried', worker, jsonb_build_object('revision', revision, 'version', version), now()
        FROM closed
    )
    INSERT INTO outbox (tenant_id, worker, work_id, revision, send_number, scheduled_at, created_at)
    SELECT changed_tenant, 'document_output', enqueued.id, enqueued.revision, enqueued.send_number, now(), now()
    FROM enqueued
    ON CONFLICT (worker, work_id, revision, send_number) DO NOTHING;
    PERFORM set_config('counterfoil.tenant', coalesce(previous_tenant, ''), true);
END
$body$;
REVOKE ALL ON FUNCTION record_stage_change FROM PUBLIC;

-- Only the owner may attach the trigger functions to a table. Otherwise a role could attach them to a temporary table
-- and forge deliveries for any tenant. A trigger runs its function without this privilege.
CREATE FUNCTION on_matching_status_change() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $body$
BEGIN
    PERFORM record_stage_change(NEW.tenant_id, NEW.id, 'matching', coalesce(NEW.matching_status, 'skipped'),
                          coalesce(NEW.matching_error, NEW.matching_skip_reason));
    RETURN NULL;
END
$body$;
REVOKE ALL ON FUNCTION on_matching_status_change FROM PUBLIC;
CREATE TRIGGER record_stage_change AFTER UPDATE OF matching_status ON document FOR EACH ROW
WHEN (OLD.matching_status IS DISTINCT FROM NEW.matching_status
      AND (NEW.matching_status IS NULL OR NEW.matching_status IN ('succeeded', 'failed')))
EXECUTE FUNCTION on_matching_status_change();

CREATE FUNCTION on_ingestion_status_change() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $body$
BEGIN
    PERFORM record_stage_change(NEW.tenant_id, NEW.id, 'ingestion', coalesce(NEW.status, 'skipped'),
                          coalesce(NEW.error, NEW.skip_reason));
    RETURN NULL;
END
$body$;
REVOKE ALL ON FUNCTION on_ingestion_status_change FROM PUBLIC;
CREATE TRIGGER record_stage_change AFTER UPDATE OF status ON ingestion_job FOR EACH ROW
WHEN (OLD.status IS DISTINCT FROM NEW.status AND (NEW.status IS NULL OR NEW.status IN ('succeeded', 'failed')))
EXECUTE FUNCTION on_ingestion_status_change();

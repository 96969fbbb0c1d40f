-- depends: 0018.operation
-- Destinations that want documents are told when one's state has changed for good.

-- States change at the hands of workers, of the archiver and of whoever recovers, under roles that may not see what a
-- document states. So it is the row itself that tells, in the transaction that changes it: whoever ends the work, nothing
-- is left out, and what is rolled back is not told.

-- For the function below, which acts as the owner, for one tenant at a time; documents have such a policy (0017).
DO $security$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['outbox', 'dead_letter', 'dead_letter_audit'] LOOP
        EXECUTE format($policy$CREATE POLICY telling ON %I TO counterfoil_owner
            USING (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)
            WITH CHECK (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)$policy$, name);
    END LOOP;
END
$security$;

-- What is told of a document. `subject_id` and destination name one job for ever (`counterfoil.documents.output`); a new
-- revision of it begins as any work's does (`counterfoil.work.begin`), unless it would tell the same again; the dead letter
-- of one that had failed is settled by it. An ingestion that succeeded is the end for a file that was taken apart; for any
-- other one its match is still to come.
CREATE FUNCTION tell_document(told_tenant uuid, told_document uuid, told_stage text, told_state text, why text)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $body$
DECLARE
    callers_tenant text := current_setting('counterfoil.tenant', true);
BEGIN
    IF NOT EXISTS (SELECT FROM destination
                   WHERE tenant_id = told_tenant AND disabled_at IS NULL AND 'document' = ANY (events)) THEN
        RETURN;
    END IF;
    PERFORM set_config('counterfoil.tenant', told_tenant::text, true);
    WITH told AS (
        SELECT jsonb_build_object(
            'id', id, 'type', type, 'file_name', file_name,
            'received_at', to_char(received_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
            'state', told_state, 'stage', told_stage, 'reason', why, 'structured_data', structured_data
        ) AS payload
        FROM document WHERE id = told_document
          AND (told_stage = 'matching' OR told_state <> 'succeeded' OR matching_status IS NULL)
    ), owed AS (
        INSERT INTO output_job AS job (id, tenant_id, destination_id, subject, subject_id, schema_version, payload,
                                       requested_at, created_at, status, revision, claim_token)
        SELECT md5(format('document_output/%s/document/%s', destination.id, told_document))::uuid, told_tenant,
               destination.id, 'document', told_document, 1, told.payload, now(), now(), 'pending', 1,
               nextval('claim_token')
        FROM destination CROSS JOIN told
        WHERE destination.tenant_id = told_tenant AND destination.disabled_at IS NULL
          AND 'document' = ANY (destination.events)
        ORDER BY 1
        ON CONFLICT (destination_id, subject, subject_id) DO UPDATE SET schema_version = excluded.schema_version,
            payload = excluded.payload, requested_at = excluded.requested_at, delivered_at = NULL,
            response_status = NULL, status = 'pending', revision = job.revision + 1, send_number = 0,
            claim_token = nextval('claim_token'), error = NULL, reason = NULL, failed_at = NULL, attempts = 0,
            returns = 0, claimed_at = NULL, lease_expires_at = NULL, next_attempt_at = NULL
        WHERE job.payload <> excluded.payload
        RETURNING job.id, job.revision, job.send_number, old.status = 'failed' AS had_failed
    ), settled AS (
        UPDATE dead_letter SET status = 'retried', resolved_at = now(), resolved_by = worker, resolution =
            '{"action": "retried", "notes": "There is something newer to tell, which is delivered instead."}'
        FROM owed
        WHERE owed.had_failed AND dead_letter.task_type = 'document_output' AND dead_letter.status = 'pending'
          AND dead_letter.worker = 'document_output' AND dead_letter.work_id = owed.id
        RETURNING dead_letter.tenant_id, dead_letter.job_id, dead_letter.worker, dead_letter.revision
    ), audited AS (
        INSERT INTO dead_letter_audit (tenant_id, job_id, action, actor, detail, recorded_at)
        SELECT tenant_id, job_id, 'retried', worker, jsonb_build_object('revision', revision), now() FROM settled
    )
    INSERT INTO outbox (tenant_id, worker, work_id, revision, send_number, not_before, created_at)
    SELECT told_tenant, 'document_output', owed.id, owed.revision, owed.send_number, now(), now() FROM owed
    ON CONFLICT (worker, work_id, revision, send_number) DO NOTHING;
    PERFORM set_config('counterfoil.tenant', coalesce(callers_tenant, ''), true);
END
$body$;
REVOKE ALL ON FUNCTION tell_document FROM PUBLIC;

CREATE FUNCTION tell_matching() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $body$
BEGIN
    PERFORM tell_document(NEW.tenant_id, NEW.id, 'matching', coalesce(NEW.matching_status, 'skipped'),
                          coalesce(NEW.matching_error, NEW.matching_reason));
    RETURN NULL;
END
$body$;
CREATE TRIGGER tell AFTER UPDATE OF matching_status ON document FOR EACH ROW
WHEN (OLD.matching_status IS DISTINCT FROM NEW.matching_status
      AND (NEW.matching_status IS NULL OR NEW.matching_status IN ('succeeded', 'failed')))
EXECUTE FUNCTION tell_matching();

CREATE FUNCTION tell_ingestion() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $body$
BEGIN
    PERFORM tell_document(NEW.tenant_id, NEW.id, 'ingestion', coalesce(NEW.status, 'skipped'),
                          coalesce(NEW.error, NEW.reason));
    RETURN NULL;
END
$body$;
CREATE TRIGGER tell AFTER UPDATE OF status ON ingestion_job FOR EACH ROW
WHEN (OLD.status IS DISTINCT FROM NEW.status AND (NEW.status IS NULL OR NEW.status IN ('succeeded', 'failed')))
EXECUTE FUNCTION tell_ingestion();

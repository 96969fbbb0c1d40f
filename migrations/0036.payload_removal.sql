-- depends: 0035.lost_tries
-- Large payloads of tasks, in S3, that are to be removed: one lives as long as its task does.

-- Each is noted before it is written, to be removed a day later; the transaction that accepts its task takes the note
-- away, and the deletion of the task, or of what it says, puts it back. It outlives its tenant, whose objects are there.
CREATE TABLE payload_removal (
    key       text PRIMARY KEY,
    tenant_id uuid NOT NULL,
    due_at    timestamptz NOT NULL,
    CHECK (starts_with(key, 'tasks/' || tenant_id || '/'))
);
CREATE INDEX payload_removal_by_due ON payload_removal (due_at);

ALTER TABLE payload_removal ENABLE ROW LEVEL SECURITY;
ALTER TABLE payload_removal FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON payload_removal TO counterfoil_worker
    USING (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)
    WITH CHECK (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid);
GRANT SELECT, INSERT, DELETE ON payload_removal TO counterfoil_worker;
-- The watchdog removes what is due, by the database's clock.
CREATE POLICY due ON payload_removal TO counterfoil_keeper USING (due_at < now()) WITH CHECK (false);
GRANT SELECT (key, due_at), DELETE ON payload_removal TO counterfoil_keeper;

-- Whoever deletes a task, or a tenant, or takes the payload away, leaves the note. It acts as the owner.
CREATE POLICY left_behind ON payload_removal FOR INSERT TO counterfoil_owner WITH CHECK (true);
CREATE FUNCTION leave_payload() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp
AS $body$
BEGIN
    INSERT INTO payload_removal (key, tenant_id, due_at) VALUES (OLD.payload_key, OLD.tenant_id, now());
    RETURN NULL;
END
$body$;
REVOKE ALL ON FUNCTION leave_payload FROM PUBLIC;
CREATE TRIGGER leave_payload AFTER DELETE ON task FOR EACH ROW WHEN (OLD.payload_key IS NOT NULL)
    EXECUTE FUNCTION leave_payload();
CREATE TRIGGER take_payload_away AFTER UPDATE OF payload_key ON task FOR EACH ROW
    WHEN (OLD.payload_key IS NOT NULL AND NEW.payload_key IS DISTINCT FROM OLD.payload_key)
    EXECUTE FUNCTION leave_payload();

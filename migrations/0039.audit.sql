-- depends: 0038.dead_letter_console
-- Who changed what of dead letters, in a chain that shows whether an entry was changed or taken out; edits of payloads.

-- Append-only. Ids and hashes alone: it outlives its tenant. Each entry holds the hash of the one before it, and its own,
-- over all that it says (`counterfoil.dead_letters.audit`).
CREATE TABLE audit_entry (
    tenant_id      uuid,  -- NULL: about what is nobody's, a message that could not be read
    number         bigint NOT NULL CHECK (number >= 1),
    recorded_at    timestamptz NOT NULL,
    actor          text NOT NULL,
    action         text NOT NULL,
    targets        text[] NOT NULL,
    version_before integer,
    version_after  integer,
    note_hash      bytea CHECK (octet_length(note_hash) = 32),
    detail         jsonb NOT NULL DEFAULT '{}',
    previous_hash  bytea CHECK (octet_length(previous_hash) = 32),
    hash           bytea NOT NULL CHECK (octet_length(hash) = 32),
    UNIQUE NULLS NOT DISTINCT (tenant_id, number),
    CHECK ((number = 1) = (previous_hash IS NULL))
);

-- The last entry of each chain: without it, nobody could tell that the newest ones were taken away.
CREATE TABLE audit_head (
    tenant_id uuid UNIQUE NULLS NOT DISTINCT,
    number    bigint NOT NULL,
    hash      bytea NOT NULL
);

DO $security$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['audit_entry', 'audit_head'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format($policy$CREATE POLICY own_tenant ON %I TO counterfoil_worker
            USING (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)
            WITH CHECK (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)$policy$, name);
        EXECUTE format('CREATE POLICY nobodys ON %I TO counterfoil_delivery USING (tenant_id IS NULL)
                        WITH CHECK (tenant_id IS NULL)', name);
        EXECUTE format('GRANT SELECT ON %I TO counterfoil_worker, counterfoil_delivery', name);
    END LOOP;
END
$security$;
GRANT INSERT ON audit_entry TO counterfoil_worker, counterfoil_delivery;
-- For the function below, which acts as the owner, about what row-level security let in.
CREATE POLICY following ON audit_head TO counterfoil_owner USING (true) WITH CHECK (true);

CREATE FUNCTION follow_audit() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp
AS $body$
BEGIN
    IF NEW.number = 1 THEN
        INSERT INTO audit_head (tenant_id, number, hash) VALUES (NEW.tenant_id, 1, NEW.hash);
        RETURN NULL;
    END IF;
    UPDATE audit_head SET number = NEW.number, hash = NEW.hash
    WHERE tenant_id IS NOT DISTINCT FROM NEW.tenant_id AND number = NEW.number - 1 AND hash = NEW.previous_hash;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'an entry of the audit trail follows the last one' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NULL;
END
$body$;
REVOKE ALL ON FUNCTION follow_audit FROM PUBLIC;
CREATE TRIGGER follow AFTER INSERT ON audit_entry FOR EACH ROW EXECUTE FUNCTION follow_audit();

CREATE FUNCTION refuse_audit_change() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp
AS $body$
BEGIN
    RAISE EXCEPTION 'the audit trail is only added to' USING ERRCODE = 'insufficient_privilege';
END
$body$;
REVOKE ALL ON FUNCTION refuse_audit_change FROM PUBLIC;
CREATE TRIGGER refuse BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_entry
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_change();
CREATE TRIGGER refuse BEFORE DELETE OR TRUNCATE ON audit_head FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_change();

-- A payload as a person wants it, of a task that has failed: the task gets it when it is tried again.
ALTER TABLE dead_letter
    ADD edited_payload jsonb,
    ADD edit           jsonb,  -- by, at, and what differs, with both values
    ADD CHECK ((edited_payload IS NULL) = (edit IS NULL));

-- A message that named no work is sent again as it was: such a row of the outbox is not about work, but a dead letter.
ALTER TABLE outbox ADD body text;

-- The audit trail: hash chains that show whether an entry was changed or removed.

-- Append-only, with ids and hashes instead of content. Each entry contains the previous entry's hash, and the hash of
-- its own fields (counterfoil.audit).
CREATE TABLE audit_entry (
    tenant_id      uuid,  -- NULL: the entry is about an unassigned dead letter, a queue or an erased tenant
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

-- The last entry of each chain. Without it, removing the newest entries would go unnoticed.
CREATE TABLE audit_head (
    tenant_id uuid UNIQUE NULLS NOT DISTINCT,
    number    bigint NOT NULL,
    hash      bytea NOT NULL
);

-- Key for the hashes in the unassigned chain. The delivery role reads it, because it writes that chain.
CREATE TABLE audit_salt_global (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    salt    bytea NOT NULL DEFAULT uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())
);
INSERT INTO audit_salt_global DEFAULT VALUES;
GRANT SELECT ON audit_salt_global TO counterfoil_delivery;

-- Email addresses of callers who made changes through the API, for display. Other tables identify callers by the
-- subject of their tokens.
CREATE TABLE person (
    tenant_id uuid REFERENCES tenant (id) ON DELETE CASCADE,  -- NULL: the change affected several tenants
    subject   text NOT NULL CHECK (length(subject) BETWEEN 1 AND 254),
    email     text NOT NULL CHECK (length(email) BETWEEN 3 AND 254),
    UNIQUE NULLS NOT DISTINCT (tenant_id, subject)
);
CREATE INDEX person_by_subject ON person (subject);
ALTER TABLE person ENABLE ROW LEVEL SECURITY;
ALTER TABLE person FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON person TO counterfoil_worker
    USING (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid);
GRANT SELECT ON person TO counterfoil_worker;
-- Only the API may look up addresses across tenants. Workers must not, because they process files from outside senders.
CREATE POLICY api ON person TO counterfoil_api
    USING (nullif(current_setting('counterfoil.tenant', true), '') IS NULL)
    WITH CHECK (nullif(current_setting('counterfoil.tenant', true), '') IS NULL);
GRANT INSERT, UPDATE (email) ON person TO counterfoil_api;

DO $security$
DECLARE
    table_name text;
BEGIN
    FOREACH table_name IN ARRAY ARRAY['audit_entry', 'audit_head'] LOOP
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
    FOREACH table_name IN ARRAY ARRAY['audit_entry', 'audit_head'] LOOP
        EXECUTE format('CREATE POLICY unassigned ON %I TO counterfoil_delivery USING (tenant_id IS NULL)
                        WITH CHECK (tenant_id IS NULL)', table_name);
        EXECUTE format('GRANT SELECT ON %I TO counterfoil_worker, counterfoil_delivery', table_name);
    END LOOP;
END
$security$;
GRANT INSERT ON audit_entry TO counterfoil_worker, counterfoil_delivery;
-- The owner role changes tenants, destinations and tolerances, and writes the audit entry in the same transaction.
CREATE POLICY owner_insert ON audit_entry FOR INSERT TO counterfoil_owner WITH CHECK (true);

-- Moves the chain head to a new entry that row-level security has accepted. Runs as the owner.
CREATE POLICY owner_all ON audit_head TO counterfoil_owner USING (true) WITH CHECK (true);
CREATE FUNCTION append_audit_head() RETURNS trigger
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
        RAISE EXCEPTION 'the audit entry must follow the chain head' USING ERRCODE =
            'integrity_constraint_violation';
    END IF;
    RETURN NULL;
END
$body$;
REVOKE ALL ON FUNCTION append_audit_head FROM PUBLIC;
CREATE TRIGGER append_head AFTER INSERT ON audit_entry FOR EACH ROW EXECUTE FUNCTION append_audit_head();

-- An audit trail may be deleted only while its tenant is being erased.
CREATE FUNCTION reject_audit_change() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp
AS $body$
BEGIN
    IF TG_OP = 'DELETE' AND EXISTS (
        SELECT FROM tenant_erasure WHERE id = CASE TG_LEVEL
            WHEN 'ROW' THEN OLD.tenant_id ELSE nullif(current_setting('counterfoil.tenant', true), '')::uuid END
    ) THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'the audit trail is append-only' USING ERRCODE = 'insufficient_privilege';
END
$body$;
REVOKE ALL ON FUNCTION reject_audit_change FROM PUBLIC;
CREATE TRIGGER reject_change BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_entry
    FOR EACH STATEMENT EXECUTE FUNCTION reject_audit_change();
CREATE TRIGGER reject_change BEFORE DELETE OR TRUNCATE ON audit_head
    FOR EACH STATEMENT EXECUTE FUNCTION reject_audit_change();
CREATE TRIGGER reject_row_deletion BEFORE DELETE ON audit_entry FOR EACH ROW EXECUTE FUNCTION reject_audit_change();
CREATE TRIGGER reject_row_deletion BEFORE DELETE ON audit_head FOR EACH ROW EXECUTE FUNCTION reject_audit_change();

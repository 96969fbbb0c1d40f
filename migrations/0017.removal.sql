-- depends: 0016.diagnostics
-- Documents that were removed, and files that are to take the place of a document.

-- What is left of a removed document: no content, but what it was, who removed it and why. `written_by` tells a match
-- that is under way that it may have seen a document which is gone.
CREATE TABLE document_removal (
    document_id  uuid PRIMARY KEY,
    tenant_id    uuid NOT NULL REFERENCES tenant (id) ON DELETE CASCADE,
    source_id    uuid NOT NULL,
    parent_id    uuid,
    first_page   integer,
    last_page    integer,
    bucket       text NOT NULL,
    key          text NOT NULL,
    version      text,
    file_name    text NOT NULL,
    content_hash bytea NOT NULL,
    type         text,
    received_at  timestamptz NOT NULL,
    removed_at   timestamptz NOT NULL,
    removed_by   text NOT NULL CHECK (length(removed_by) BETWEEN 1 AND 254),
    reason       text CHECK (length(reason) BETWEEN 1 AND 2000),
    replaced_by  uuid,
    written_by   xid8 NOT NULL DEFAULT pg_current_xact_id(),
    FOREIGN KEY (tenant_id, source_id) REFERENCES source (tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX document_removal_by_transaction ON document_removal (tenant_id, written_by);
CREATE INDEX document_removal_by_source ON document_removal (tenant_id, source_id);
CREATE INDEX document_removal_by_parent ON document_removal (parent_id) WHERE parent_id IS NOT NULL;

-- A file that is to take a document's place, known by where it is uploaded to. Its acquisition removes the document.
CREATE TABLE document_replacement (
    id           uuid PRIMARY KEY DEFAULT uuidv7(),
    tenant_id    uuid NOT NULL REFERENCES tenant (id) ON DELETE CASCADE,
    bucket       text NOT NULL,
    key          text NOT NULL,
    document_id  uuid NOT NULL,
    requested_by text NOT NULL CHECK (length(requested_by) BETWEEN 1 AND 254),
    reason       text CHECK (length(reason) BETWEEN 1 AND 2000),
    requested_at timestamptz NOT NULL,
    settled_at   timestamptz,
    UNIQUE (tenant_id, bucket, key)
);

DO $security$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['document_removal', 'document_replacement'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format($policy$CREATE POLICY own_tenant ON %I TO counterfoil_worker
            USING (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)
            WITH CHECK (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)$policy$, name);
        EXECUTE format('GRANT SELECT ON %I TO counterfoil_worker', name);
    END LOOP;
    GRANT INSERT, UPDATE (settled_at) ON document_replacement TO counterfoil_worker;
    -- For the function below, which acts as the owner, for the tenant of the caller's transaction.
    FOREACH name IN ARRAY ARRAY['document', 'document_removal'] LOOP
        EXECUTE format($policy$CREATE POLICY removal ON %I TO counterfoil_owner
            USING (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)
            WITH CHECK (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)$policy$, name);
    END LOOP;
END
$security$;

-- The only way for a worker to delete a document: with its trail, or not at all. What hangs on the document goes with it.
CREATE FUNCTION remove_documents(ids uuid[], by text, why text, successor uuid, at timestamptz) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp
AS $body$
    INSERT INTO document_removal (document_id, tenant_id, source_id, parent_id, first_page, last_page, bucket, key,
                                  version, file_name, content_hash, type, received_at, removed_at, removed_by, reason,
                                  replaced_by)
    SELECT id, tenant_id, source_id, parent_id, first_page, last_page, bucket, key, version, file_name, content_hash,
           type, received_at, at, by, why, successor
    FROM document WHERE id = ANY(ids);
    DELETE FROM document WHERE id = ANY(ids);
$body$;
REVOKE ALL ON FUNCTION remove_documents FROM PUBLIC;
GRANT EXECUTE ON FUNCTION remove_documents TO counterfoil_worker;

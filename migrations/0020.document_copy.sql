-- depends: 0019.document_status
-- Where else a document's content came: the same bytes as a part of another file, or by themselves.

-- Names of files and no content. A row lives as long as the file that it is of. It outlives its document on purpose: where
-- a person removed that one, reading the other file anew must not bring it back.
CREATE TABLE document_copy (
    id          uuid PRIMARY KEY DEFAULT uuidv7(),
    tenant_id   uuid NOT NULL,
    document_id uuid NOT NULL,
    source_id   uuid NOT NULL,
    parent_id   uuid,  -- NULL: it came by itself
    first_page  integer,
    last_page   integer,
    bucket      text NOT NULL,
    key         text NOT NULL,
    version     text,
    file_name   text NOT NULL,
    CHECK (num_nulls(parent_id, first_page, last_page) IN (0, 3)),
    FOREIGN KEY (tenant_id, source_id) REFERENCES source (tenant_id, id) ON DELETE CASCADE,
    FOREIGN KEY (tenant_id, parent_id) REFERENCES document (tenant_id, id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX document_copy_by_parent ON document_copy (parent_id, first_page) WHERE parent_id IS NOT NULL;
CREATE UNIQUE INDEX document_copy_by_source ON document_copy (source_id, document_id) WHERE parent_id IS NULL;
CREATE INDEX document_copy_by_document ON document_copy (document_id);

ALTER TABLE document_copy ENABLE ROW LEVEL SECURITY;
ALTER TABLE document_copy FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON document_copy TO counterfoil_worker
    USING (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)
    WITH CHECK (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid);
GRANT SELECT, INSERT ON document_copy TO counterfoil_worker;
-- For the function below, which acts as the owner, for the tenant of the caller's transaction.
CREATE POLICY removal ON document_copy TO counterfoil_owner
    USING (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)
    WITH CHECK (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid);

-- The parts of a file that goes become those of the next file that holds them: the same documents, found elsewhere.
-- Returns them. The only way for a worker to change where a document came from.
CREATE FUNCTION hand_over_parts(leaving uuid) RETURNS SETOF uuid
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp
AS $body$
    WITH heir AS (
        SELECT DISTINCT ON (c.document_id) c.*
        FROM document d JOIN document_copy c ON c.document_id = d.id
        WHERE d.parent_id = leaving AND c.parent_id IS DISTINCT FROM leaving
        ORDER BY c.document_id, c.id
    ), taken AS (
        DELETE FROM document_copy c USING heir WHERE c.id = heir.id
    )
    UPDATE document d
    SET source_id = heir.source_id, parent_id = heir.parent_id, first_page = heir.first_page,
        last_page = heir.last_page, bucket = heir.bucket, key = heir.key, version = heir.version,
        file_name = heir.file_name
    FROM heir WHERE d.id = heir.document_id
    RETURNING d.id;
$body$;
REVOKE ALL ON FUNCTION hand_over_parts FROM PUBLIC;
GRANT EXECUTE ON FUNCTION hand_over_parts TO counterfoil_worker;

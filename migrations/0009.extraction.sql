-- Extraction: split documents, fields with evidence, search words, removal and replacement.

ALTER TABLE document
    -- For a part of a split file: the document for the whole file, and the pages of the part.
    ADD COLUMN parent_id  uuid,
    ADD COLUMN first_page integer,
    ADD COLUMN last_page  integer,
    -- By field path: {"issuer.vat_id": {"source": "text", "confidence": 0.9, "page": 1}}. If all fields come from XML,
    -- they have one common entry: {"*": {"source": "xml", "confidence": 1}}.
    ADD COLUMN evidence   jsonb,
    ADD CONSTRAINT document_child CHECK (num_nulls(parent_id, first_page, last_page) IN (0, 3)),
    ADD CONSTRAINT document_pages CHECK (first_page BETWEEN 1 AND last_page),
    ADD FOREIGN KEY (tenant_id, parent_id) REFERENCES document (tenant_id, id) ON DELETE CASCADE;
-- Finds the existing documents when the same file is split again.
CREATE UNIQUE INDEX document_by_parent ON document (parent_id, first_page) WHERE parent_id IS NOT NULL;
GRANT UPDATE (evidence) ON document TO counterfoil_worker;

-- Extractions of documents. The id is the document's id.
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
    dlq_returns      integer NOT NULL DEFAULT 0,
    skip_reason      text,
    FOREIGN KEY (tenant_id, id) REFERENCES document (tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX ingestion_job_status ON ingestion_job (status) WHERE status IN ('pending', 'in-progress');

-- Answers about a document's pages, by a hash of the whole request: fields that a language model extracted, or words
-- that OCR found. They are permanent, because later attempts and extractions of the same file should cost nothing.
CREATE TABLE page_reading_cache (
    tenant_id   uuid NOT NULL,
    document_id uuid NOT NULL,
    cache_key   bytea NOT NULL,
    answer      jsonb NOT NULL,
    provider    text NOT NULL,  -- the model, or the OCR service
    created_at  timestamptz NOT NULL,
    PRIMARY KEY (document_id, cache_key),
    FOREIGN KEY (tenant_id, document_id) REFERENCES document (tenant_id, id) ON DELETE CASCADE
);

-- Documents' search words, from the names of the parties and the file. A trigger writes them whenever a document
-- changes. Numbers are in document_key.
CREATE TABLE document_word (
    tenant_id   uuid NOT NULL,
    document_id uuid NOT NULL,
    word        text NOT NULL,
    received_at timestamptz NOT NULL,  -- copied from the document, for sorting
    PRIMARY KEY (document_id, word),
    FOREIGN KEY (tenant_id, document_id) REFERENCES document (tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX document_word_page ON document_word (tenant_id, word, received_at DESC, document_id DESC);

-- Duplicates of a document's content in other files, as part of a file or as a whole file. A row is deleted with its
-- file, not with its document: if a user removed the document, extracting the other file again must not restore it.
CREATE TABLE document_duplicate_file (
    id          uuid PRIMARY KEY DEFAULT uuidv7(),
    tenant_id   uuid NOT NULL,
    document_id uuid NOT NULL,
    source_id   uuid NOT NULL,
    parent_id   uuid,  -- NULL: the whole file
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
CREATE UNIQUE INDEX document_duplicate_file_by_parent ON document_duplicate_file (parent_id,
    first_page) WHERE parent_id IS NOT NULL;
CREATE UNIQUE INDEX document_duplicate_file_by_source ON document_duplicate_file (source_id,
    document_id) WHERE parent_id IS NULL;
CREATE INDEX document_duplicate_file_by_document ON document_duplicate_file (document_id);
CREATE INDEX document_duplicate_file_by_key ON document_duplicate_file (tenant_id, key);

-- Removed documents, without content: the origin, the user who removed the document, and the reason. From
-- `written_by_xid`, a matching attempt in progress detects that it may have seen a removed document.
CREATE TABLE document_deletion (
    document_id    uuid PRIMARY KEY,
    tenant_id      uuid NOT NULL REFERENCES tenant (id) ON DELETE CASCADE,
    source_id      uuid NOT NULL,
    parent_id      uuid,
    first_page     integer,
    last_page      integer,
    bucket         text NOT NULL,
    key            text NOT NULL,
    version        text,
    file_name      text NOT NULL,
    content_hash   bytea NOT NULL,
    type           text,
    received_at    timestamptz NOT NULL,
    deleted_at     timestamptz NOT NULL,
    deleted_by     text NOT NULL CHECK (length(deleted_by) BETWEEN 1 AND 254),
    reason         text CHECK (length(reason) BETWEEN 1 AND 2000),
    replaced_by    uuid,
    written_by_xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    FOREIGN KEY (tenant_id, source_id) REFERENCES source (tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX document_deletion_by_transaction ON document_deletion (tenant_id, written_by_xid);
CREATE INDEX document_deletion_by_source ON document_deletion (tenant_id, source_id);
CREATE INDEX document_deletion_by_parent ON document_deletion (parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX document_deletion_by_key ON document_deletion (tenant_id, key);

-- Requested replacements of documents by the file with this key. A document is deleted once its replacement has been
-- extracted.
CREATE TABLE document_replacement (
    id             uuid PRIMARY KEY DEFAULT uuidv7(),
    tenant_id      uuid NOT NULL REFERENCES tenant (id) ON DELETE CASCADE,
    bucket         text NOT NULL,
    key            text NOT NULL,
    document_id    uuid NOT NULL,
    requested_by   text NOT NULL CHECK (length(requested_by) BETWEEN 1 AND 254),
    reason         text CHECK (length(reason) BETWEEN 1 AND 2000),
    requested_at   timestamptz NOT NULL,
    closed_at      timestamptz,
    replacement_id uuid,
    UNIQUE (tenant_id, bucket, key)
);
CREATE INDEX document_replacement_by_successor ON document_replacement (replacement_id)
    WHERE replacement_id IS NOT NULL AND closed_at IS NULL;

DO $security$
DECLARE
    table_name text;
BEGIN
    FOREACH table_name IN ARRAY ARRAY['ingestion_job', 'page_reading_cache', 'document_duplicate_file',
                                      'document_deletion', 'document_replacement'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', table_name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', table_name);
        EXECUTE format($policy$CREATE POLICY own_tenant ON %I TO counterfoil_worker
            USING (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)
            WITH CHECK (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)$policy$, table_name);
    END LOOP;
END
$security$;

GRANT SELECT, INSERT, UPDATE (status, error, attempts, failed_at, revision, claim_token, claimed_at, lease_expires_at,
                              next_attempt_at, send_number, dlq_returns,
                                  skip_reason) ON ingestion_job TO counterfoil_worker;
-- The delivery role reads and changes the life cycle columns of all tenants' work items, but sees no content.
CREATE POLICY delivery ON ingestion_job TO counterfoil_delivery USING (true) WITH CHECK (true);
GRANT SELECT (id, tenant_id, created_at, status, error, attempts, failed_at, revision, claim_token, claimed_at,
              lease_expires_at, next_attempt_at, send_number, dlq_returns, skip_reason),
      UPDATE (status, error, attempts, failed_at, revision, claim_token, claimed_at, lease_expires_at, next_attempt_at,
              send_number, dlq_returns, skip_reason)
    ON ingestion_job TO counterfoil_delivery;
GRANT SELECT, INSERT ON page_reading_cache, document_duplicate_file TO counterfoil_worker;
GRANT SELECT ON document_deletion TO counterfoil_worker;
-- The delivery role looks up the tenants of removed documents.
CREATE POLICY delivery ON document_deletion FOR SELECT TO counterfoil_delivery USING (true);
GRANT SELECT (document_id, tenant_id) ON document_deletion TO counterfoil_delivery;
GRANT SELECT, INSERT, UPDATE (closed_at, replacement_id) ON document_replacement TO counterfoil_worker;

-- Returns the words in the first 4,000 characters of a text: letters and digits of any alphabet, in lower case,
-- independently of the database's collation. Words are truncated to 64 characters. At most 64 words are returned, the
-- first in sorted order.
CREATE FUNCTION tokenize(value text) RETURNS SETOF text LANGUAGE sql IMMUTABLE PARALLEL SAFE
    SET search_path = pg_catalog, pg_temp AS $words$
    SELECT DISTINCT left(word, 64) COLLATE "default"
    FROM regexp_split_to_table(lower(normalize(left(value, 4000), NFKC) COLLATE "pg_c_utf8"), '[^[:alnum:]]+') AS word
    WHERE word <> '' ORDER BY 1 LIMIT 64
$words$;

ALTER TABLE document_word ENABLE ROW LEVEL SECURITY;
ALTER TABLE document_word FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON document_word FOR SELECT TO counterfoil_worker
    USING (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid);
CREATE POLICY owner_all ON document_word TO counterfoil_owner USING (true) WITH CHECK (true);  -- for the trigger
GRANT SELECT ON document_word TO counterfoil_worker;
CREATE FUNCTION index_document_words() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, public, pg_temp AS $write$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        DELETE FROM document_word WHERE document_id = NEW.id;
    END IF;
    INSERT INTO document_word (tenant_id, document_id, word, received_at)
    SELECT NEW.tenant_id, NEW.id, word, NEW.received_at
    FROM tokenize(concat_ws(' ', NEW.file_name,
                            NEW.structured_data #>> '{issuer,name}', NEW.structured_data #>> '{recipient,name}',
                            NEW.structured_data #>> '{supplier,name}', NEW.structured_data #>> '{buyer,name}')) AS word;
    RETURN NULL;
END
$write$;
REVOKE EXECUTE ON FUNCTION index_document_words() FROM PUBLIC;
CREATE TRIGGER index_words_on_insert AFTER INSERT ON document FOR EACH ROW EXECUTE FUNCTION index_document_words();
CREATE TRIGGER index_words_on_update AFTER UPDATE OF structured_data, file_name ON document FOR EACH ROW
    WHEN ((NEW.structured_data, NEW.file_name) IS DISTINCT FROM (OLD.structured_data, OLD.file_name))
    EXECUTE FUNCTION index_document_words();

-- For the functions below, which run as the owner with the tenant of the caller's transaction.
DO $security$
DECLARE
    table_name text;
BEGIN
    FOREACH table_name IN ARRAY ARRAY['document', 'document_deletion', 'document_duplicate_file'] LOOP
        EXECUTE format($policy$CREATE POLICY removal ON %I TO counterfoil_owner
            USING (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)
            WITH CHECK (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)$policy$, table_name);
    END LOOP;
END
$security$;

-- Deletes documents and records their removal. Workers can delete documents only with this function. Rows that
-- reference a document are deleted with it.
CREATE FUNCTION delete_documents(ids uuid[], by text, deletion_reason text, successor uuid, at timestamptz) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp
AS $body$
    INSERT INTO document_deletion (document_id, tenant_id, source_id, parent_id, first_page, last_page, bucket, key,
                                  version, file_name, content_hash, type, received_at, deleted_at, deleted_by, reason,
                                  replaced_by)
    SELECT id, tenant_id, source_id, parent_id, first_page, last_page, bucket, key, version, file_name, content_hash,
           type, received_at, at, by, deletion_reason, successor
    FROM document WHERE id = ANY(ids);
    DELETE FROM document WHERE id = ANY(ids);
$body$;
REVOKE ALL ON FUNCTION delete_documents FROM PUBLIC;
GRANT EXECUTE ON FUNCTION delete_documents TO counterfoil_worker;

-- Assigns the parts of a file that is being removed to another file that contains the same documents. Returns the
-- parts. Workers can change a document's origin only with this function.
CREATE FUNCTION promote_duplicate_file(removed_file_id uuid) RETURNS SETOF uuid
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp
AS $body$
    WITH heir AS (
        SELECT DISTINCT ON (c.document_id) c.*
        FROM document d JOIN document_duplicate_file c ON c.document_id = d.id
        WHERE d.parent_id = removed_file_id AND c.parent_id IS DISTINCT FROM removed_file_id
        ORDER BY c.document_id, c.id
    ), deleted AS (
        DELETE FROM document_duplicate_file c USING heir WHERE c.id = heir.id
    )
    UPDATE document d
    SET source_id = heir.source_id, parent_id = heir.parent_id, first_page = heir.first_page,
        last_page = heir.last_page, bucket = heir.bucket, key = heir.key, version = heir.version,
        file_name = heir.file_name
    FROM heir WHERE d.id = heir.document_id
    RETURNING d.id;
$body$;
REVOKE ALL ON FUNCTION promote_duplicate_file FROM PUBLIC;
GRANT EXECUTE ON FUNCTION promote_duplicate_file TO counterfoil_worker;

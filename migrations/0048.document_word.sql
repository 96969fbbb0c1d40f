-- depends: 0047.queues
-- Words by which people find documents: of the parties' names and of the file's name. Whoever changes either of them need
-- not know: a trigger writes the words anew. Numbers are found by document_key.

CREATE TABLE document_word (
    tenant_id   uuid NOT NULL,
    document_id uuid NOT NULL,
    word        text NOT NULL,
    received_at timestamptz NOT NULL,  -- of the document, whose pages are in this order
    PRIMARY KEY (document_id, word),
    FOREIGN KEY (tenant_id, document_id) REFERENCES document (tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX document_word_page ON document_word (tenant_id, word, received_at DESC, document_id DESC);

-- Letters and digits of any alphabet, in lower case, whatever the database's own collation is; of long words the first 64
-- characters, and of a text that has more than 64 of them the first in their order.
CREATE FUNCTION words_of(said text) RETURNS SETOF text LANGUAGE sql IMMUTABLE PARALLEL SAFE
    SET search_path = pg_catalog, pg_temp AS $words$
    SELECT DISTINCT left(word, 64) COLLATE "default"
    FROM regexp_split_to_table(lower(normalize(left(said, 4000), NFKC) COLLATE "pg_c_utf8"), '[^[:alnum:]]+') AS word
    WHERE word <> '' ORDER BY 1 LIMIT 64
$words$;

CREATE FUNCTION write_document_words() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, public, pg_temp AS $write$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        DELETE FROM document_word WHERE document_id = NEW.id;
    END IF;
    INSERT INTO document_word (tenant_id, document_id, word, received_at)
    SELECT NEW.tenant_id, NEW.id, word, NEW.received_at
    FROM words_of(concat_ws(' ', NEW.file_name,
                            NEW.structured_data #>> '{issuer,name}', NEW.structured_data #>> '{recipient,name}',
                            NEW.structured_data #>> '{supplier,name}', NEW.structured_data #>> '{buyer,name}')) AS word;
    RETURN NULL;
END
$write$;
REVOKE EXECUTE ON FUNCTION write_document_words() FROM PUBLIC;
CREATE TRIGGER words_when_it_comes AFTER INSERT ON document FOR EACH ROW EXECUTE FUNCTION write_document_words();
CREATE TRIGGER words_when_it_says_otherwise AFTER UPDATE OF structured_data, file_name ON document FOR EACH ROW
    WHEN ((NEW.structured_data, NEW.file_name) IS DISTINCT FROM (OLD.structured_data, OLD.file_name))
    EXECUTE FUNCTION write_document_words();

ALTER TABLE document_word ENABLE ROW LEVEL SECURITY;
ALTER TABLE document_word FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON document_word FOR SELECT TO counterfoil_worker
    USING (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid);
CREATE POLICY writing ON document_word TO counterfoil_owner USING (true) WITH CHECK (true);  -- the trigger acts as it
GRANT SELECT ON document_word TO counterfoil_worker;

-- Documents that are there already: the owner, whom row-level security binds, too, has to see them.
ALTER TABLE document NO FORCE ROW LEVEL SECURITY;
INSERT INTO document_word (tenant_id, document_id, word, received_at)
SELECT d.tenant_id, d.id, word, d.received_at
FROM document d CROSS JOIN LATERAL words_of(
    concat_ws(' ', d.file_name, d.structured_data #>> '{issuer,name}', d.structured_data #>> '{recipient,name}',
              d.structured_data #>> '{supplier,name}', d.structured_data #>> '{buyer,name}')) AS word;
ALTER TABLE document FORCE ROW LEVEL SECURITY;

-- depends: 0026.seeking
-- What an embedding model makes of a document's words, so that documents are found by what they are about.

-- The first vector for a text and a model stands. Buckets are cut from the signature, which is the vector's by planes that
-- never change; the vector itself is kept for who wants to cut others. It goes with its document.
CREATE TABLE document_embedding (
    tenant_id   uuid NOT NULL,
    document_id uuid PRIMARY KEY,
    text_hash   bytea NOT NULL,    -- of the words that were embedded: what a document says may change
    model       text NOT NULL,     -- with its provider
    signature   bytea NOT NULL,
    vector      halfvec NOT NULL,  -- of length 1
    FOREIGN KEY (tenant_id, document_id) REFERENCES document (tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX document_embedding_by_text ON document_embedding (tenant_id, text_hash);

ALTER TABLE document_embedding ENABLE ROW LEVEL SECURITY;
ALTER TABLE document_embedding FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON document_embedding TO counterfoil_worker
    USING (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)
    WITH CHECK (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid);
GRANT SELECT, INSERT, UPDATE (text_hash, model, signature, vector) ON document_embedding TO counterfoil_worker;

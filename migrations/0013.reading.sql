-- depends: 0011.purge
-- Where the fields of a document come from, and what services said about its pages.

-- Evidence by the path of a field: {"issuer.vat_id": {"source": "text", "confidence": 0.9, "page": 1}}. What XML states
-- exactly has one entry for all: {"*": {"source": "xml", "confidence": 1}}.
ALTER TABLE document ADD COLUMN evidence jsonb;
GRANT UPDATE (evidence) ON document TO counterfoil_worker;

-- An answer about a document's pages, by a hash of all that was asked: what a language model read from their text, or the
-- words that character recognition found on one of them. It stands: a later try, or a later ingestion of the same file,
-- asks nobody and pays nothing.
CREATE TABLE reading (
    tenant_id   uuid NOT NULL,
    document_id uuid NOT NULL,
    question    bytea NOT NULL,
    answer      jsonb NOT NULL,
    read_by     text NOT NULL,  -- the model's name, or the service that recognises
    read_at     timestamptz NOT NULL,
    PRIMARY KEY (document_id, question),
    FOREIGN KEY (tenant_id, document_id) REFERENCES document (tenant_id, id) ON DELETE CASCADE
);
ALTER TABLE reading ENABLE ROW LEVEL SECURITY;
ALTER TABLE reading FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON reading TO counterfoil_worker
    USING (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)
    WITH CHECK (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid);
GRANT SELECT, INSERT ON reading TO counterfoil_worker;

-- depends: 0003.documents
-- What matching searches by, and what it finds. A row never spans two tenants: the foreign keys carry the tenant along.

-- A document's keys: its own number, the references it names, the parties it is between. A partner shares a key.
CREATE TABLE document_key (
    tenant_id   uuid NOT NULL,
    document_id uuid NOT NULL,
    type        text NOT NULL,
    key         text NOT NULL,
    written_by  xid8 NOT NULL DEFAULT pg_current_xact_id(),  -- tells whether a search could have seen the row
    PRIMARY KEY (document_id, type, key),
    FOREIGN KEY (tenant_id, document_id) REFERENCES document (tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX document_key_by_key ON document_key (tenant_id, type, key) INCLUDE (document_id);

-- An edge: two documents that belong together. a < b, so that a pair has one row.
CREATE TABLE document_match (
    tenant_id  uuid NOT NULL,
    a          uuid NOT NULL,
    b          uuid NOT NULL,
    score      double precision NOT NULL,
    confidence text NOT NULL CHECK (confidence IN ('high', 'medium', 'low')),
    evidence   jsonb NOT NULL,
    decided_by text NOT NULL CHECK (decided_by IN ('rules', 'llm', 'person')),
    reasoning  text NOT NULL,
    decided_at timestamptz NOT NULL,
    PRIMARY KEY (a, b),
    CHECK (a < b),
    FOREIGN KEY (tenant_id, a) REFERENCES document (tenant_id, id) ON DELETE CASCADE,
    FOREIGN KEY (tenant_id, b) REFERENCES document (tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX document_match_by_b ON document_match (b);

DO $security$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['document_key', 'document_match'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format($policy$CREATE POLICY own_tenant ON %I TO counterfoil_worker
            USING (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)
            WITH CHECK (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)$policy$, name);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO counterfoil_worker', name);
    END LOOP;
END
$security$;

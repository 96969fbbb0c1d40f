-- depends: 0022.same_message_id
-- What matching leaves for people to decide, and what they decided.

-- A person's decisions about pairs of documents. Rows are only ever added: the last one about a pair is what stands.
-- `written_by` tells a match that is under way that it has not seen a decision.
CREATE TABLE match_decision (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id  uuid NOT NULL,
    a          uuid NOT NULL,
    b          uuid NOT NULL,
    verdict    text NOT NULL CHECK (verdict IN ('confirmed', 'rejected')),
    decided_by text NOT NULL CHECK (length(decided_by) BETWEEN 1 AND 254),
    reason     text CHECK (length(reason) BETWEEN 1 AND 2000),
    decided_at timestamptz NOT NULL,
    written_by xid8 NOT NULL DEFAULT pg_current_xact_id(),
    CHECK (a < b),
    FOREIGN KEY (tenant_id, a) REFERENCES document (tenant_id, id) ON DELETE CASCADE,
    FOREIGN KEY (tenant_id, b) REFERENCES document (tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX match_decision_by_a ON match_decision (a, b, id);
CREATE INDEX match_decision_by_b ON match_decision (b);
CREATE INDEX match_decision_by_transaction ON match_decision (tenant_id, written_by);

-- A document of which rules, and a language model where one is asked, could not tell what it belongs to: one row for
-- each that was ever in doubt, written with the edges.
CREATE TABLE document_review (
    document_id uuid PRIMARY KEY,
    tenant_id   uuid NOT NULL,
    type        text NOT NULL,  -- the document's, as it was then
    state       text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'decided', 'gone')),
    doubts      jsonb NOT NULL,  -- candidates, each with its evidence
    chance      double precision NOT NULL CHECK (chance BETWEEN 0 AND 1),  -- of the likeliest candidate
    weights     text NOT NULL,  -- the version of the match weights
    opened_at   timestamptz NOT NULL,
    changed_at  timestamptz NOT NULL,
    closed_at   timestamptz,
    CHECK ((closed_at IS NULL) = (state = 'open')),
    FOREIGN KEY (tenant_id, document_id) REFERENCES document (tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX document_review_in_order ON document_review (state, opened_at, document_id);

DO $security$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['match_decision', 'document_review'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format($policy$CREATE POLICY own_tenant ON %I TO counterfoil_worker
            USING (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)
            WITH CHECK (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)$policy$, name);
        EXECUTE format('GRANT SELECT, INSERT ON %I TO counterfoil_worker', name);
    END LOOP;
    GRANT UPDATE (type, state, doubts, chance, weights, opened_at, changed_at, closed_at) ON document_review
        TO counterfoil_worker;
    -- The list of all tenants' reviews is put in order without their content.
    CREATE POLICY delivery ON document_review TO counterfoil_delivery USING (true) WITH CHECK (true);
    GRANT SELECT (document_id, tenant_id, type, state, chance, opened_at) ON document_review TO counterfoil_delivery;
END
$security$;

-- depends: 0004.matching
-- The language model: what it was asked for and what that cost, and what it said about documents.

-- One call. It holds no content: neither question nor answer. Calls that ask whether the service is there belong to no
-- tenant; the delivery role writes them and reads none.
CREATE TABLE llm_call (
    id            uuid PRIMARY KEY,
    tenant_id     uuid REFERENCES tenant (id) ON DELETE CASCADE,
    work_id       uuid,
    purpose       text NOT NULL,
    provider      text NOT NULL,
    model         text NOT NULL,
    outcome       text NOT NULL CHECK (outcome IN ('answered', 'invalid_answer', 'too_long', 'rejected', 'unavailable',
                                                   'cancelled', 'failed')),
    input_tokens  integer,                   -- NULL: no answer said how many
    output_tokens integer,
    latency_ms    integer NOT NULL,
    cost_usd      numeric,
    created_at    timestamptz NOT NULL
);
CREATE INDEX llm_call_by_time ON llm_call (tenant_id, created_at);

-- An answer about a document's doubtful partners, by a hash of all that was asked. It stands: who asks the same again,
-- in another try or for another document that arrives, gets the same edges, and calls nobody.
CREATE TABLE judgement (
    tenant_id   uuid NOT NULL,
    document_id uuid NOT NULL,
    question    bytea NOT NULL,
    answer      jsonb NOT NULL,
    model       text NOT NULL,
    judged_at   timestamptz NOT NULL,
    PRIMARY KEY (document_id, question),
    FOREIGN KEY (tenant_id, document_id) REFERENCES document (tenant_id, id) ON DELETE CASCADE
);

DO $security$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['llm_call', 'judgement'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format($policy$CREATE POLICY own_tenant ON %I TO counterfoil_worker
            USING (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)
            WITH CHECK (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)$policy$, name);
        EXECUTE format('GRANT SELECT, INSERT ON %I TO counterfoil_worker', name);
    END LOOP;
END
$security$;

CREATE POLICY of_nobody ON llm_call FOR INSERT TO counterfoil_delivery WITH CHECK (tenant_id IS NULL);
GRANT INSERT ON llm_call TO counterfoil_delivery;

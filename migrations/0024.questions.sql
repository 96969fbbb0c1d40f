-- depends: 0023.review
-- What a language model was asked, so that it can be looked at and asked again; and how often it was asked on a day.

-- A call is on record before it is made: one whose process dies has been made, and may have to be paid. What is known
-- when it ends is NULL until then.
ALTER TABLE llm_call ALTER COLUMN outcome DROP NOT NULL, ALTER COLUMN latency_ms DROP NOT NULL;
CREATE INDEX llm_call_by_work ON llm_call (work_id, created_at);

-- Calls of a tenant on a day of UTC. Whoever is about to call waits for this row, so that no budget is exceeded by those
-- who ask at the same time.
CREATE TABLE llm_day (
    tenant_id uuid NOT NULL REFERENCES tenant (id) ON DELETE CASCADE,
    day       date NOT NULL,
    calls     integer NOT NULL CHECK (calls > 0),
    PRIMARY KEY (tenant_id, day)
);

-- The question to an answer, without what its candidates say. NULL in rows from before this was kept, and where an
-- answer brought no numbers; temperature is NULL, too, where the model takes none but its own.
ALTER TABLE judgement
    ADD COLUMN prompt        text,  -- the version of the instructions, for people
    ADD COLUMN system        text,  -- the instructions
    ADD COLUMN asked         text,  -- the case, in which labels stand for the candidates
    ADD COLUMN temperature   double precision,
    ADD COLUMN input_tokens  integer,
    ADD COLUMN output_tokens integer;

-- What a candidate says, as the question quoted it. It goes with the document that says it.
CREATE TABLE judgement_candidate (
    tenant_id    uuid NOT NULL,
    document_id  uuid NOT NULL,
    question     bytea NOT NULL,
    label        text NOT NULL,
    candidate_id uuid NOT NULL,
    says         text NOT NULL,
    PRIMARY KEY (document_id, question, label),
    FOREIGN KEY (document_id, question) REFERENCES judgement (document_id, question) ON DELETE CASCADE,
    FOREIGN KEY (tenant_id, document_id) REFERENCES document (tenant_id, id) ON DELETE CASCADE,
    FOREIGN KEY (tenant_id, candidate_id) REFERENCES document (tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX judgement_candidate_by_candidate ON judgement_candidate (tenant_id, candidate_id);

DO $security$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['llm_day', 'judgement_candidate'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format($policy$CREATE POLICY own_tenant ON %I TO counterfoil_worker
            USING (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)
            WITH CHECK (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)$policy$, name);
        EXECUTE format('GRANT SELECT, INSERT ON %I TO counterfoil_worker', name);
    END LOOP;
END
$security$;
GRANT UPDATE (calls) ON llm_day TO counterfoil_worker;
GRANT UPDATE (outcome, input_tokens, output_tokens, latency_ms, cost_usd) ON llm_call TO counterfoil_worker;

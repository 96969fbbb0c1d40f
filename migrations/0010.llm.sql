-- Calls to language models, their cost and budgets, and the models' judgments of ambiguous matches.

-- Calls, without prompts and answers. Calls that probe whether the service is available have no tenant. The delivery
-- role writes these calls, but cannot read any. A call is recorded before it is made, because it can cost money even if
-- the process crashes. Columns whose values are known only at the end are NULL until then.
CREATE TABLE llm_call (
    id            uuid PRIMARY KEY,
    tenant_id     uuid REFERENCES tenant (id) ON DELETE CASCADE,
    work_id       uuid,
    purpose       text NOT NULL,
    provider      text NOT NULL,
    model         text NOT NULL,
    outcome       text CHECK (outcome IN ('answered', 'invalid_answer', 'too_long', 'rejected', 'unavailable',
        'canceled',
                                          'failed')),
    input_tokens  integer,                   -- NULL: not in a response
    output_tokens integer,
    latency_ms    integer,
    cost_usd      numeric,
    created_at    timestamptz NOT NULL
);
CREATE INDEX llm_call_by_time ON llm_call (tenant_id, created_at);
CREATE INDEX llm_call_by_age ON llm_call (created_at);
CREATE INDEX llm_call_by_work ON llm_call (work_id, created_at);

-- Number of a tenant's calls per UTC day. Each call locks the row first, because concurrent calls must not exceed the
-- budget. Conversations and documents have separate budgets.
CREATE TABLE llm_daily_usage (
    tenant_id  uuid NOT NULL REFERENCES tenant (id) ON DELETE CASCADE,
    day        date NOT NULL,
    calls      integer NOT NULL CHECK (calls >= 0),
    chat_calls integer NOT NULL DEFAULT 0 CHECK (chat_calls >= 0),
    PRIMARY KEY (tenant_id, day)
);

-- Answers about a document's ambiguous matches, by a hash of the whole question. They are permanent: the same question,
-- in another attempt or for a later document, gets the same answer without another call. The question is stored without
-- the candidates' texts.
CREATE TABLE llm_judgment (
    tenant_id     uuid NOT NULL,
    document_id   uuid NOT NULL,
    question      bytea NOT NULL,
    answer        jsonb NOT NULL,
    model         text NOT NULL,
    answered_at   timestamptz NOT NULL,
    prompt        text,  -- version of the instructions
    system        text,  -- the instructions
    request_json  text,  -- the question, with labels instead of the candidates
    temperature   double precision,  -- NULL: the model accepts only its default
    input_tokens  integer,
    output_tokens integer,
    PRIMARY KEY (document_id, question),
    FOREIGN KEY (tenant_id, document_id) REFERENCES document (tenant_id, id) ON DELETE CASCADE
);

-- A candidate's text as quoted in the question. It is deleted with the candidate's document.
CREATE TABLE llm_judgment_candidate (
    tenant_id     uuid NOT NULL,
    document_id   uuid NOT NULL,
    question      bytea NOT NULL,
    label         text NOT NULL,
    candidate_id  uuid NOT NULL,
    document_text text NOT NULL,
    PRIMARY KEY (document_id, question, label),
    FOREIGN KEY (document_id, question) REFERENCES llm_judgment (document_id, question) ON DELETE CASCADE,
    FOREIGN KEY (tenant_id, document_id) REFERENCES document (tenant_id, id) ON DELETE CASCADE,
    FOREIGN KEY (tenant_id, candidate_id) REFERENCES document (tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX llm_judgment_candidate_by_candidate ON llm_judgment_candidate (tenant_id, candidate_id);

DO $security$
DECLARE
    table_name text;
BEGIN
    FOREACH table_name IN ARRAY ARRAY['llm_call', 'llm_daily_usage', 'llm_judgment', 'llm_judgment_candidate'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', table_name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', table_name);
        EXECUTE format($policy$CREATE POLICY own_tenant ON %I TO counterfoil_worker
            USING (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)
            WITH CHECK (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)$policy$, table_name);
    END LOOP;
END
$security$;
CREATE POLICY unassigned ON llm_call FOR INSERT TO counterfoil_delivery WITH CHECK (tenant_id IS NULL);
-- Retention is 13 months, to compare a month with the same month of the previous year. The maintenance role sees only
-- the id and the time of older calls.
CREATE POLICY retention ON llm_call TO counterfoil_maintenance
    USING (created_at < now() - interval '400 days') WITH CHECK (false);

GRANT SELECT, INSERT, UPDATE (outcome, input_tokens, output_tokens, latency_ms,
    cost_usd) ON llm_call TO counterfoil_worker;
GRANT INSERT ON llm_call TO counterfoil_delivery;
GRANT SELECT (id, created_at), DELETE ON llm_call TO counterfoil_maintenance;
GRANT SELECT, INSERT, UPDATE (calls, chat_calls) ON llm_daily_usage TO counterfoil_worker;
GRANT SELECT, INSERT ON llm_judgment, llm_judgment_candidate TO counterfoil_worker;

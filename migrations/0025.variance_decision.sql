-- depends: 0024.questions
-- What people say of differences between the documents of a case, and who set a tolerance, and why.

-- Rows are only ever added: the last one about a difference is what stands. It is about these figures: when a document
-- is read anew, or another one comes in, and they change, nobody has said anything of the new ones.
CREATE TABLE variance_decision (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id   uuid NOT NULL,
    document_id uuid NOT NULL,
    code        text NOT NULL,
    line        text,
    expected    numeric NOT NULL,
    actual      numeric NOT NULL,
    unit        text,
    currency    text,
    verdict     text NOT NULL CHECK (verdict IN ('accepted', 'disputed')),
    decided_by  text NOT NULL CHECK (length(decided_by) BETWEEN 1 AND 254),
    reason      text CHECK (length(reason) BETWEEN 1 AND 2000),
    decided_at  timestamptz NOT NULL,
    FOREIGN KEY (tenant_id, document_id) REFERENCES document (tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX variance_decision_by_document ON variance_decision (document_id, id);

ALTER TABLE tolerance
    ADD COLUMN set_by   text CHECK (length(set_by) BETWEEN 1 AND 254),
    ADD COLUMN reason   text CHECK (length(reason) BETWEEN 1 AND 2000),
    ADD COLUMN evidence jsonb;  -- the proposal that a person accepted; NULL where a person set it without one

ALTER TABLE variance_decision ENABLE ROW LEVEL SECURITY;
ALTER TABLE variance_decision FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON variance_decision TO counterfoil_worker
    USING (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)
    WITH CHECK (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid);
GRANT SELECT, INSERT ON variance_decision TO counterfoil_worker;

-- Matching: the other life cycle columns, blocking keys, matches and reviews. A row cannot reference documents of two
-- tenants, because the foreign keys contain the tenant.

ALTER TABLE document
    ADD COLUMN matching_revision         integer NOT NULL DEFAULT 0,
    ADD COLUMN matching_claim_token      bigint NOT NULL DEFAULT 0,
    ADD COLUMN matching_claimed_at       timestamptz,
    ADD COLUMN matching_lease_expires_at timestamptz,
    ADD COLUMN matching_next_attempt_at  timestamptz,
    ADD COLUMN matching_send_number      integer NOT NULL DEFAULT 0,
    ADD COLUMN matching_dlq_returns      integer NOT NULL DEFAULT 0,
    ADD COLUMN matching_skip_reason      text;
GRANT UPDATE (matching_revision, matching_claim_token, matching_claimed_at, matching_lease_expires_at,
              matching_next_attempt_at, matching_send_number, matching_dlq_returns, matching_skip_reason)
    ON document TO counterfoil_worker;
GRANT SELECT (matching_revision, matching_claim_token, matching_claimed_at, matching_lease_expires_at,
              matching_next_attempt_at, matching_send_number, matching_dlq_returns, matching_skip_reason),
      UPDATE (matching_revision, matching_claim_token, matching_claimed_at, matching_lease_expires_at,
              matching_next_attempt_at, matching_send_number, matching_dlq_returns, matching_skip_reason)
    ON document TO counterfoil_delivery;

-- Blocking keys of documents, such as number, references and parties. Documents that share a value are candidates.
CREATE TABLE document_key (
    tenant_id      uuid NOT NULL,
    document_id    uuid NOT NULL,
    type           text NOT NULL,
    value          text NOT NULL,
    written_by_xid xid8 NOT NULL DEFAULT pg_current_xact_id(),  -- shows whether a search could have seen the row
    PRIMARY KEY (document_id, type, value),
    FOREIGN KEY (tenant_id, document_id) REFERENCES document (tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX document_key_by_key ON document_key (tenant_id, type, value) INCLUDE (document_id);

-- The last transaction in which one of a tenant's documents lost blocking keys. A matching attempt in progress may have
-- found the document by a lost key.
CREATE TABLE key_deletion (
    tenant_id      uuid PRIMARY KEY REFERENCES tenant ON DELETE CASCADE,
    written_by_xid xid8 NOT NULL DEFAULT pg_current_xact_id()
);

-- Vectors from an embedding model, which find documents by meaning. The first vector for a text and a model is never
-- replaced. The signature has one bit for each of a fixed set of planes: the side of the plane on which the vector
-- lies. Buckets are parts of the signature. The vector is stored to allow a later change of the planes.
CREATE TABLE document_embedding (
    tenant_id   uuid NOT NULL,
    document_id uuid PRIMARY KEY,
    text_hash   bytea NOT NULL,    -- hash of the embedded words, which can change
    model       text NOT NULL,     -- provider and model
    signature   bytea NOT NULL,
    vector      halfvec NOT NULL,  -- normalized to length 1
    FOREIGN KEY (tenant_id, document_id) REFERENCES document (tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX document_embedding_by_text ON document_embedding (tenant_id, text_hash);

-- Matches: pairs of documents that belong together. a < b, so a pair has only one row.
CREATE TABLE document_match (
    tenant_id     uuid NOT NULL,
    document_a_id uuid NOT NULL,
    document_b_id uuid NOT NULL,
    score         double precision NOT NULL,
    confidence    text NOT NULL CHECK (confidence IN ('high', 'medium', 'low')),
    evidence      jsonb NOT NULL,  -- codes of features and levels with their bits, and the origin of the match
    decided_by    text NOT NULL CHECK (decided_by IN ('rules', 'llm', 'reviewer')),
    reasoning     text NOT NULL,
    decided_at    timestamptz NOT NULL,
    PRIMARY KEY (document_a_id, document_b_id),
    CHECK (document_a_id < document_b_id),
    FOREIGN KEY (tenant_id, document_a_id) REFERENCES document (tenant_id, id) ON DELETE CASCADE,
    FOREIGN KEY (tenant_id, document_b_id) REFERENCES document (tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX document_match_by_b ON document_match (document_b_id);

-- Reviewers' decisions on pairs of documents. Append-only: the last row about a pair counts. From `written_by_xid`, a
-- matching attempt in progress detects decisions that it has not seen.
CREATE TABLE match_decision (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id      uuid NOT NULL,
    document_a_id  uuid NOT NULL,
    document_b_id  uuid NOT NULL,
    decision       text NOT NULL CHECK (decision IN ('confirmed', 'rejected')),
    decided_by     text NOT NULL CHECK (length(decided_by) BETWEEN 1 AND 254),
    reason         text CHECK (length(reason) BETWEEN 1 AND 2000),
    decided_at     timestamptz NOT NULL,
    written_by_xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    CHECK (document_a_id < document_b_id),
    FOREIGN KEY (tenant_id, document_a_id) REFERENCES document (tenant_id, id) ON DELETE CASCADE,
    FOREIGN KEY (tenant_id, document_b_id) REFERENCES document (tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX match_decision_by_a ON match_decision (document_a_id, document_b_id, id);
CREATE INDEX match_decision_by_b ON match_decision (document_b_id);
CREATE INDEX match_decision_by_transaction ON match_decision (tenant_id, written_by_xid);

-- Reviews of documents with matches that neither the rules nor a language model could decide, and of skipped documents
-- whose match a reviewer must choose. The row is written with the matches, and remains when they are no longer
-- ambiguous.
CREATE TABLE document_review (
    document_id       uuid PRIMARY KEY,
    tenant_id         uuid NOT NULL,
    type              text NOT NULL,  -- document type when the review was opened
    state             text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'decided', 'resolved')),
    ambiguous_matches jsonb NOT NULL,  -- candidates, each with its evidence
    -- Match probability of the best candidate.
    probability       double precision NOT NULL CHECK (probability BETWEEN 0 AND 1),
    weights_version   text NOT NULL,  -- version of the match weights
    opened_at         timestamptz NOT NULL,
    changed_at        timestamptz NOT NULL,
    closed_at         timestamptz,
    CHECK ((closed_at IS NULL) = (state = 'open')),
    FOREIGN KEY (tenant_id, document_id) REFERENCES document (tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX document_review_in_order ON document_review (state, opened_at, document_id);

DO $security$
DECLARE
    table_name text;
BEGIN
    FOREACH table_name IN ARRAY ARRAY['document_key', 'key_deletion', 'document_embedding', 'document_match',
        'match_decision',
                                'document_review'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', table_name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', table_name);
        EXECUTE format($policy$CREATE POLICY own_tenant ON %I TO counterfoil_worker
            USING (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)
            WITH CHECK (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)$policy$, table_name);
    END LOOP;
END
$security$;

GRANT SELECT, INSERT, UPDATE, DELETE ON document_key, document_match TO counterfoil_worker;
GRANT SELECT, INSERT, UPDATE ON key_deletion TO counterfoil_worker;
GRANT SELECT, INSERT, UPDATE (text_hash, model, signature, vector) ON document_embedding TO counterfoil_worker;
GRANT SELECT, INSERT ON match_decision TO counterfoil_worker;
GRANT SELECT, INSERT, UPDATE (type, state, ambiguous_matches, probability, weights_version, opened_at, changed_at,
    closed_at) ON document_review
    TO counterfoil_worker;
-- The delivery role sorts the reviews of all tenants without reading their content.
CREATE POLICY delivery ON document_review TO counterfoil_delivery USING (true) WITH CHECK (true);
GRANT SELECT (document_id, tenant_id, type, state, probability, opened_at) ON document_review TO counterfoil_delivery;

-- Three-way match: each cluster's result, tolerances, and reviewers' decisions on variances.

-- The id is the cluster's id, which is the smallest id of its documents. It is not a foreign key, because the row
-- remains when the cluster is deleted. If the cluster exists again, its revisions continue.
CREATE TABLE cluster_diagnostics (
    id               uuid PRIMARY KEY,
    tenant_id        uuid NOT NULL REFERENCES tenant (id) ON DELETE CASCADE,
    created_at       timestamptz NOT NULL,
    match_status     text CHECK (match_status IN ('matched', 'within-tolerance', 'exception', 'incomplete')),
    result           jsonb,
    computed_at      timestamptz,
    status           text DEFAULT 'pending' CHECK (status IN ('pending', 'in-progress', 'succeeded', 'failed')),
    error            text,
    attempts         integer NOT NULL DEFAULT 0,
    failed_at        timestamptz,
    revision         integer NOT NULL DEFAULT 0,
    claim_token      bigint NOT NULL DEFAULT 0,
    claimed_at       timestamptz,
    lease_expires_at timestamptz,
    next_attempt_at  timestamptz,
    send_number      integer NOT NULL DEFAULT 0,
    dlq_returns      integer NOT NULL DEFAULT 0,
    skip_reason      text,
    -- Lists sort and filter clusters by status, supplier, amount affected and age. These columns are stored with the
    -- result, because a page must come from a single index.
    cluster_status   text CHECK (cluster_status IN ('exception', 'needs-review', 'disputed', 'incomplete', 'accepted',
                                                    'matched')),
    supplier         text,
    supplier_key     text COLLATE "C",  -- normalized words of the supplier's name, for searches by prefix
    order_numbers    text[],
    currency         text,
    amount_ordered   numeric,
    amount_delivered numeric,
    amount_billed    numeric,
    amount_affected  numeric,
    -- Row-level security prevents index conditions on numeric, because its operators are not leakproof.
    amount_affected_order   double precision GENERATED ALWAYS AS (amount_affected::double precision) STORED,
    waiting_since    timestamptz,
    documents        integer,
    CHECK ((match_status IS NULL) = (result IS NULL)),
    CHECK (num_nulls(cluster_status, amount_affected, waiting_since, documents) IN (0, 4)),
    CHECK ((cluster_status IS NULL) = (result IS NULL))
);
CREATE INDEX cluster_diagnostics_status ON cluster_diagnostics (status) WHERE status IN ('pending', 'in-progress');
CREATE INDEX cluster_diagnostics_by_age ON cluster_diagnostics (tenant_id, cluster_status, waiting_since, id);
CREATE INDEX cluster_diagnostics_by_amount ON cluster_diagnostics (tenant_id, cluster_status, amount_affected_order, id);
CREATE INDEX cluster_diagnostics_by_supplier ON cluster_diagnostics (tenant_id, supplier_key);

-- Tolerances. A NULL limit does not apply. If an absolute and a percent limit are set, both apply. For each variance,
-- only the most specific row is used.
CREATE TABLE tolerance (
    id             uuid PRIMARY KEY DEFAULT uuidv7(),
    tenant_id      uuid NOT NULL REFERENCES tenant (id) ON DELETE CASCADE,
    variance_type  text NOT NULL CHECK (variance_type IN ('price', 'billed_quantity', 'delivered_quantity', 'total',
        'tax')),
    supplier       text CHECK (length(supplier) BETWEEN 1 AND 200),  -- VAT id or name; NULL: every supplier
    article        text CHECK (length(article) BETWEEN 1 AND 200),   -- seller's or buyer's number; NULL: every article
    lower_absolute numeric CHECK (lower_absolute >= 0),
    lower_percent  numeric CHECK (lower_percent >= 0),
    upper_absolute numeric CHECK (upper_absolute >= 0),
    upper_percent  numeric CHECK (upper_percent >= 0),
    created_at     timestamptz NOT NULL DEFAULT now(),
    set_by         text CHECK (length(set_by) BETWEEN 1 AND 254),
    reason         text CHECK (length(reason) BETWEEN 1 AND 2000),
    evidence       jsonb,  -- the accepted suggestion; NULL: not from a suggestion
    UNIQUE NULLS NOT DISTINCT (tenant_id, variance_type, supplier, article)
);

-- Reviewers' decisions on variances. Append-only: the last row about a variance counts. A decision applies only to its
-- figures. If a figure changes, because a document is extracted again or another document arrives, the variance is
-- undecided again.
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
    decision    text NOT NULL CHECK (decision IN ('accepted', 'disputed')),
    decided_by  text NOT NULL CHECK (length(decided_by) BETWEEN 1 AND 254),
    reason      text CHECK (length(reason) BETWEEN 1 AND 2000),
    decided_at  timestamptz NOT NULL,
    FOREIGN KEY (tenant_id, document_id) REFERENCES document (tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX variance_decision_by_document ON variance_decision (document_id, id);

DO $security$
DECLARE
    table_name text;
BEGIN
    FOREACH table_name IN ARRAY ARRAY['cluster_diagnostics', 'tolerance', 'variance_decision'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', table_name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', table_name);
        EXECUTE format($policy$CREATE POLICY own_tenant ON %I TO counterfoil_worker
            USING (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)
            WITH CHECK (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)$policy$, table_name);
    END LOOP;
END
$security$;

GRANT SELECT, INSERT,
      UPDATE (match_status, result, computed_at, cluster_status, supplier, supplier_key, order_numbers, currency,
          amount_ordered,
              amount_delivered, amount_billed, amount_affected, waiting_since, documents, status, error, attempts,
              failed_at, revision, claim_token, claimed_at, lease_expires_at, next_attempt_at, send_number, dlq_returns,
              skip_reason)
    ON cluster_diagnostics TO counterfoil_worker;
-- The delivery role reads and changes the life cycle columns of all tenants' work items, but sees no content.
CREATE POLICY delivery ON cluster_diagnostics TO counterfoil_delivery USING (true) WITH CHECK (true);
GRANT SELECT (id, tenant_id, created_at, status, error, attempts, failed_at, revision, claim_token, claimed_at,
              lease_expires_at, next_attempt_at, send_number, dlq_returns, skip_reason),
      UPDATE (status, error, attempts, failed_at, revision, claim_token, claimed_at, lease_expires_at, next_attempt_at,
              send_number, dlq_returns, skip_reason)
    ON cluster_diagnostics TO counterfoil_delivery;
-- A tenant's users set its tolerances. Workers cannot change them.
GRANT SELECT ON tolerance TO counterfoil_worker;
CREATE POLICY onboarding ON tolerance TO counterfoil_owner USING (true) WITH CHECK (true);
GRANT SELECT, INSERT ON variance_decision TO counterfoil_worker;

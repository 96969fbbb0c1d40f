-- depends: 0015.output
-- What the documents of a cluster come to, held against one another, and how far differences are tolerated.

-- Its id is the cluster's: the id of its smallest document. There is no foreign key: a cluster that is no more keeps its
-- row, so that its revision goes on where it ended when it comes again.
CREATE TABLE cluster_diagnostics (
    id               uuid PRIMARY KEY,
    tenant_id        uuid NOT NULL REFERENCES tenant (id) ON DELETE CASCADE,
    created_at       timestamptz NOT NULL,
    outcome          text CHECK (outcome IN ('matched', 'within-tolerance', 'exception', 'incomplete')),
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
    returns          integer NOT NULL DEFAULT 0,
    reason           text,
    CHECK ((outcome IS NULL) = (result IS NULL))
);
CREATE INDEX cluster_diagnostics_status ON cluster_diagnostics (status) WHERE status IN ('pending', 'in-progress');
CREATE INDEX cluster_diagnostics_outcome ON cluster_diagnostics (tenant_id, outcome);

-- A limit that is NULL limits nothing; where both sorts are set, both must hold. The most specific row applies, whole.
CREATE TABLE tolerance (
    id             uuid PRIMARY KEY DEFAULT uuidv7(),
    tenant_id      uuid NOT NULL REFERENCES tenant (id) ON DELETE CASCADE,
    key            text NOT NULL CHECK (key IN ('price', 'billed_quantity', 'delivered_quantity', 'total', 'tax')),
    supplier       text CHECK (length(supplier) BETWEEN 1 AND 200),  -- VAT id or name; NULL: every supplier
    article        text CHECK (length(article) BETWEEN 1 AND 200),   -- seller's or buyer's number; NULL: every article
    lower_absolute numeric CHECK (lower_absolute >= 0),
    lower_percent  numeric CHECK (lower_percent >= 0),
    upper_absolute numeric CHECK (upper_absolute >= 0),
    upper_percent  numeric CHECK (upper_percent >= 0),
    created_at     timestamptz NOT NULL DEFAULT now(),
    UNIQUE NULLS NOT DISTINCT (tenant_id, key, supplier, article)
);

DO $security$
DECLARE
    name text;
    life_cycle text := 'status, error, attempts, failed_at, revision, claim_token, claimed_at, lease_expires_at, '
                       'next_attempt_at, send_number, returns, reason';
BEGIN
    FOREACH name IN ARRAY ARRAY['cluster_diagnostics', 'tolerance'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format($policy$CREATE POLICY own_tenant ON %I TO counterfoil_worker
            USING (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)
            WITH CHECK (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)$policy$, name);
        EXECUTE format('GRANT SELECT ON %I TO counterfoil_worker', name);
    END LOOP;
    EXECUTE format('GRANT INSERT, UPDATE (outcome, result, computed_at, %s) ON cluster_diagnostics '
                   'TO counterfoil_worker', life_cycle);
    -- Delivery sees and moves the life cycle of all tenants' work, and no content.
    CREATE POLICY delivery ON cluster_diagnostics TO counterfoil_delivery USING (true) WITH CHECK (true);
    EXECUTE format('GRANT SELECT (id, tenant_id, created_at, %s), UPDATE (%s) ON cluster_diagnostics '
                   'TO counterfoil_delivery', life_cycle, life_cycle);
    -- Tolerances are a tenant's own decision: its people set them, and no worker does.
    CREATE POLICY onboarding ON tolerance TO counterfoil_owner USING (true) WITH CHECK (true);
END
$security$;

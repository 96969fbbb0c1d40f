-- depends: 0084.erasure
-- Clusters are listed by status, supplier, amount at stake and age. Diagnostics stores these with its result, so that a
-- page reads one index and computes nothing.

ALTER TABLE cluster_diagnostics
    ADD COLUMN cluster_status text CHECK (cluster_status IN ('exception', 'needs-review', 'disputed', 'incomplete',
                                                             'accepted', 'matched')),
    ADD COLUMN supplier text,
    ADD COLUMN supplier_key text COLLATE "C",  -- normalized words of the name, for a search by prefix
    ADD COLUMN order_numbers text[],
    ADD COLUMN currency text,
    ADD COLUMN amount_ordered numeric,
    ADD COLUMN amount_delivered numeric,
    ADD COLUMN amount_billed numeric,
    ADD COLUMN amount_at_stake numeric,
    -- Row-level security keeps comparisons of numeric out of index conditions: they are not leakproof.
    ADD COLUMN at_stake_order double precision GENERATED ALWAYS AS (amount_at_stake::double precision) STORED,
    ADD COLUMN waiting_since timestamptz,
    ADD COLUMN documents integer,
    ADD CHECK (num_nulls(cluster_status, amount_at_stake, waiting_since, documents) IN (0, 4)),
    ADD CHECK ((cluster_status IS NULL) = (result IS NULL));
DROP INDEX cluster_diagnostics_outcome;
CREATE INDEX cluster_diagnostics_by_age ON cluster_diagnostics (tenant_id, cluster_status, waiting_since, id);
CREATE INDEX cluster_diagnostics_by_amount ON cluster_diagnostics (tenant_id, cluster_status, at_stake_order, id);
CREATE INDEX cluster_diagnostics_by_supplier ON cluster_diagnostics (tenant_id, supplier_key);
GRANT UPDATE (cluster_status, supplier, supplier_key, order_numbers, currency, amount_ordered, amount_delivered,
              amount_billed, amount_at_stake, waiting_since, documents) ON cluster_diagnostics TO counterfoil_worker;

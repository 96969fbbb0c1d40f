ALTER TABLE cluster_diagnostics
    DROP COLUMN cluster_status, DROP COLUMN supplier, DROP COLUMN supplier_key, DROP COLUMN order_numbers,
    DROP COLUMN currency, DROP COLUMN amount_ordered, DROP COLUMN amount_delivered, DROP COLUMN amount_billed,
    DROP COLUMN at_stake_order, DROP COLUMN amount_at_stake, DROP COLUMN waiting_since, DROP COLUMN documents;
CREATE INDEX cluster_diagnostics_outcome ON cluster_diagnostics (tenant_id, outcome);

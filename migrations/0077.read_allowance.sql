-- depends: 0076.trigger_functions
-- Reads and changes have separate token buckets, so a program that polls leaves its tenant the tokens for changes.

ALTER TABLE change_allowance
    ADD COLUMN purpose text NOT NULL DEFAULT 'change' CHECK (purpose IN ('change', 'read')),
    DROP CONSTRAINT change_allowance_tenant_id_user_hash_key,
    ADD UNIQUE NULLS NOT DISTINCT (tenant_id, user_hash, purpose);

-- depends: 0039.audit
-- Purging of settled dead letters: out of sight at once, back again within a week if somebody wants it, then deleted.

CREATE TABLE dead_letter_purge (
    id           uuid PRIMARY KEY DEFAULT uuidv7(),
    tenant_id    uuid NOT NULL REFERENCES tenant (id) ON DELETE CASCADE,
    died_before  timestamptz NOT NULL,
    statuses     text[] NOT NULL CHECK (statuses <@ '{retried,resolved,ignored}' AND cardinality(statuses) > 0),
    requested_by text NOT NULL,
    requested_at timestamptz NOT NULL,
    hidden       bigint NOT NULL DEFAULT 0,
    is_complete  boolean NOT NULL DEFAULT false,  -- whether all are out of sight; after undone_at, whether all are back
    undone_by    text,
    undone_at    timestamptz,
    CHECK ((undone_by IS NULL) = (undone_at IS NULL)),
    UNIQUE (tenant_id, id)
);
CREATE INDEX dead_letter_purge_to_do ON dead_letter_purge (requested_at) WHERE NOT is_complete;

ALTER TABLE dead_letter ADD purge_id uuid;
ALTER TABLE dead_letter ADD FOREIGN KEY (tenant_id, purge_id) REFERENCES dead_letter_purge (tenant_id, id);
CREATE INDEX dead_letter_by_purge ON dead_letter (purge_id) WHERE purge_id IS NOT NULL;

ALTER TABLE dead_letter_purge ENABLE ROW LEVEL SECURITY;
ALTER TABLE dead_letter_purge FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON dead_letter_purge TO counterfoil_worker
    USING (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)
    WITH CHECK (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid);
CREATE POLICY delivery ON dead_letter_purge TO counterfoil_delivery USING (true) WITH CHECK (true);
GRANT SELECT, INSERT, UPDATE (undone_by, undone_at, hidden, is_complete) ON dead_letter_purge TO counterfoil_worker;
GRANT SELECT, UPDATE (hidden, is_complete) ON dead_letter_purge TO counterfoil_delivery;

-- The watchdog deletes what was purged a week ago, and what is settled and past keeping; never what waits for a person.
CREATE POLICY past_keeping ON dead_letter AS RESTRICTIVE FOR DELETE TO counterfoil_keeper
    USING (status <> 'pending' AND (purged_at < now() - interval '7 days' OR purged_at IS NULL));
GRANT DELETE ON dead_letter TO counterfoil_keeper;
CREATE INDEX dead_letter_by_settlement ON dead_letter (resolved_at) WHERE status <> 'pending';

-- A task that failed is kept as long as its dead letter, and deleted with it.
DROP POLICY past_keeping ON task;
CREATE POLICY past_keeping ON task AS RESTRICTIVE FOR DELETE TO counterfoil_keeper
    USING (status = 'failed' OR ((status = 'succeeded' OR status IS NULL) AND ended_at < now() - interval '90 days'));

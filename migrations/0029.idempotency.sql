-- depends: 0028.embedding
-- Which functions ran for which key, so that none runs twice for one, and what they returned.

-- All times are of one clock, the database's: processes whose clocks differ agree on what has expired. A result is kept
-- until it expires, a summary for 30 days after.
CREATE TABLE idempotency (
    tenant_id         uuid NOT NULL REFERENCES tenant (id) ON DELETE CASCADE,
    key               text NOT NULL,               -- which function, and a hash of what it was given
    status            text NOT NULL CHECK (status IN ('INPROGRESS', 'COMPLETED', 'EXPIRED')),
    claim             uuid NOT NULL,               -- whose run it is: what an older run brings home is void
    claims            integer NOT NULL DEFAULT 1,  -- runs under this key
    claimed_at        timestamptz NOT NULL,
    in_progress_until timestamptz,                 -- when a run that is still in progress is lost; NULL: with expires_at
    completed_at      timestamptz,
    expires_at        timestamptz NOT NULL,        -- from then on the key is free again
    payload_hash      text,                        -- of what must not differ under the same key
    result            text,                        -- JSON, as Powertools writes it
    result_hash       bytea,                       -- SHA-256; left when the result is gone
    PRIMARY KEY (tenant_id, key),
    CHECK ((status = 'COMPLETED') = (result IS NOT NULL))
);
CREATE INDEX idempotency_by_expiry ON idempotency (expires_at);
CREATE INDEX idempotency_result ON idempotency (expires_at) WHERE status = 'COMPLETED';

ALTER TABLE idempotency ENABLE ROW LEVEL SECURITY;
ALTER TABLE idempotency FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON idempotency TO counterfoil_worker
    USING (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)
    WITH CHECK (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid);
GRANT SELECT, INSERT, DELETE,
      UPDATE (status, claim, claims, claimed_at, in_progress_until, completed_at, expires_at, payload_hash, result,
              result_hash)
    ON idempotency TO counterfoil_worker;

-- The watchdog clears results that have expired, without seeing them, and deletes what is past keeping.
CREATE POLICY expired ON idempotency FOR SELECT TO counterfoil_keeper USING (expires_at < now());
CREATE POLICY cleared ON idempotency FOR UPDATE TO counterfoil_keeper
    USING (expires_at < now()) WITH CHECK (status = 'EXPIRED');
CREATE POLICY past_keeping ON idempotency FOR DELETE TO counterfoil_keeper
    USING (expires_at < now() - interval '30 days');
GRANT SELECT (tenant_id, key, status, expires_at), UPDATE (status, result), DELETE ON idempotency TO counterfoil_keeper;

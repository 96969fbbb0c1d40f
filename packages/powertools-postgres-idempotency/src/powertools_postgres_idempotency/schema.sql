-- Records of Powertools Idempotency, one row per tenant and key.
-- All times are from the database's clock, so processes with different clocks agree on what has expired.
CREATE TABLE idempotency (
    tenant            text NOT NULL,               -- '' if tenants are not used
    key               text NOT NULL,               -- function name or prefix, '#', hash of the payload
    status            text NOT NULL CHECK (status IN ('INPROGRESS', 'COMPLETED')),
    claim             uuid NOT NULL,               -- current run; results of earlier runs are discarded
    claims            integer NOT NULL DEFAULT 1,  -- number of runs
    claimed_at        timestamptz NOT NULL,
    in_progress_until timestamptz,                 -- when an unfinished run counts as lost; NULL: at expires_at
    completed_at      timestamptz,
    expires_at        timestamptz NOT NULL,        -- when the key is free again
    payload_hash      text,                        -- hash of the part of the payload that must not change
    result            text,                        -- JSON
    PRIMARY KEY (tenant, key),
    CHECK ((status = 'COMPLETED') = (result IS NOT NULL))
);
CREATE INDEX idempotency_by_expiry ON idempotency (expires_at);

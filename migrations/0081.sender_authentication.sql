-- depends: 0080.tenant_user_ids
-- Sender authentication of mail: results of Amazon SES, and the policy of a tenant for mail that fails DMARC.

ALTER TABLE tenant ADD COLUMN dmarc_policy text NOT NULL DEFAULT 'hold'
    CHECK (dmarc_policy IN ('hold', 'reject', 'accept'));

ALTER TABLE source
    ADD COLUMN spf   text,  -- results of RFC 8601, such as pass and fail; NULL: the mail has none
    ADD COLUMN dkim  text,
    ADD COLUMN dmarc text,
    ADD COLUMN hold  text CHECK (hold IN ('held', 'released', 'rejected'));
CREATE INDEX source_by_hold ON source (tenant_id, hold, received_at, id) WHERE hold IS NOT NULL;
GRANT UPDATE (hold) ON source TO counterfoil_worker;

-- Finds the tenant of a mail by its id, and nothing else.
CREATE POLICY delivery ON source FOR SELECT TO counterfoil_delivery USING (true);
GRANT SELECT (id, tenant_id) ON source TO counterfoil_delivery;

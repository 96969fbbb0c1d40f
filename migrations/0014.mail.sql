-- depends: 0013.reading
-- Mail: whose address is whose, what a mail said of itself, and what became of each file in it.

-- Where a tenant is written to. A mail finds its tenants by these; delivery looks them up before any tenant is known.
CREATE TABLE tenant_address (
    address    text PRIMARY KEY
               CHECK (address = lower(address) AND length(address) <= 254 AND address ~ '^[!-~]+@[!-~]+$'),
    tenant_id  uuid NOT NULL REFERENCES tenant (id) ON DELETE CASCADE,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX tenant_address_by_tenant ON tenant_address (tenant_id);
ALTER TABLE tenant_address ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenant_address FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON tenant_address FOR SELECT TO counterfoil_worker
    USING (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid);
CREATE POLICY delivery ON tenant_address FOR SELECT TO counterfoil_delivery USING (true);
CREATE POLICY onboarding ON tenant_address TO counterfoil_owner USING (true) WITH CHECK (true);
GRANT SELECT ON tenant_address TO counterfoil_worker;
GRANT SELECT (address, tenant_id) ON tenant_address TO counterfoil_delivery;

-- One mail in S3 is a job that belongs to nobody, and one more for each tenant that it is addressed to.
ALTER TABLE acquisition_job
    DROP CONSTRAINT acquisition_job_bucket_key_sequencer_key,
    ADD CONSTRAINT acquisition_job_object UNIQUE NULLS NOT DISTINCT (bucket, key, sequencer, tenant_id);
GRANT SELECT (version, size, sequencer) ON acquisition_job TO counterfoil_delivery;

ALTER TABLE source
    DROP CONSTRAINT source_kind_check,
    ADD CONSTRAINT source_kind_check CHECK (kind IN ('upload', 'mail')),
    ADD COLUMN sender     text,
    ADD COLUMN subject    text,
    ADD COLUMN message_id text,   -- without its angle brackets
    ADD COLUMN parts      jsonb,  -- of a mail or an archive: each file in it, and what became of it
    ADD COLUMN refusal    text;   -- why nothing was taken from it
-- A mail that was refused keeps its Message-ID from no other.
-- A mail that comes again looks for the documents that it brought, and a source that goes takes them along.
CREATE INDEX document_by_source ON document (source_id);
-- By a hash, since an entry of an index has 2,704 bytes at most, and both may be longer.
CREATE UNIQUE INDEX source_by_message ON source (tenant_id, md5(message_id || ' ' || coalesce(sender, '')))
    WHERE message_id IS NOT NULL AND refusal IS NULL;
-- Read again, by a later revision of its job, it may be found to hold something else.
GRANT UPDATE (parts, refusal) ON source TO counterfoil_worker;

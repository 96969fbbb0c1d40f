-- depends: 0017.removal
-- Work on many documents that somebody asked for, and that is begun bit by bit.

CREATE TABLE operation (
    id             uuid PRIMARY KEY DEFAULT uuidv7(),
    tenant_id      uuid NOT NULL REFERENCES tenant (id) ON DELETE CASCADE,
    kind           text NOT NULL CHECK (kind IN ('extract', 'match')),
    received_from  timestamptz,  -- of the documents that are meant; NULL: from the first one
    received_until timestamptz NOT NULL,  -- exclusive
    rate           integer NOT NULL CHECK (rate BETWEEN 1 AND 1000),  -- documents a minute
    requested_by   text NOT NULL CHECK (length(requested_by) BETWEEN 1 AND 254),
    requested_at   timestamptz NOT NULL,
    state          text NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'paused', 'done', 'aborted')),
    ended_at       timestamptz,
    -- The last document that was begun: the next ones come after it, in the order of receipt and id.
    cursor_at      timestamptz,
    cursor_id      uuid,
    stepped_at     timestamptz NOT NULL,  -- until when the rate is used up
    begun          integer NOT NULL DEFAULT 0,
    CHECK ((ended_at IS NULL) = (state IN ('running', 'paused'))),
    CHECK ((cursor_at IS NULL) = (cursor_id IS NULL)),
    CHECK (received_from < received_until)
);
CREATE INDEX operation_running ON operation (requested_at) WHERE state = 'running';
CREATE INDEX operation_by_tenant ON operation (tenant_id, requested_at);
CREATE INDEX document_by_receipt ON document (tenant_id, received_at, id);

ALTER TABLE operation ENABLE ROW LEVEL SECURITY;
ALTER TABLE operation FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON operation TO counterfoil_worker
    USING (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)
    WITH CHECK (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid);
GRANT SELECT, INSERT, UPDATE (state, ended_at, stepped_at) ON operation TO counterfoil_worker;
-- The watchdog takes the steps. It holds no content.
CREATE POLICY delivery ON operation TO counterfoil_delivery USING (true) WITH CHECK (true);
GRANT SELECT, UPDATE (state, ended_at, cursor_at, cursor_id, stepped_at, begun) ON operation TO counterfoil_delivery;

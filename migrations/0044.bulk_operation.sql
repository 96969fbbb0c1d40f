-- depends: 0043.dead_letter_version
-- Something done to many dead letters that somebody asked for, and that is carried out bit by bit; what became of each.

CREATE TABLE dead_letter_operation (
    id               uuid PRIMARY KEY DEFAULT uuidv7(),
    tenant_id        uuid NOT NULL REFERENCES tenant (id) ON DELETE CASCADE,
    action           text NOT NULL CHECK (action IN ('retry', 'resolve', 'ignore')),
    filter           jsonb,  -- which letters are meant; NULL: those that were named
    note             text CHECK (length(note) BETWEEN 1 AND 2000),
    rate             integer NOT NULL CHECK (rate BETWEEN 1 AND 500),  -- letters a second
    canary           integer CHECK (canary >= 1),  -- so many are tried first, and waited for
    requested_by     text NOT NULL CHECK (requested_by <> ''),
    requested_at     timestamptz NOT NULL,  -- what dies later is not meant
    state            text NOT NULL DEFAULT 'waiting'
                     CHECK (state IN ('waiting', 'canary', 'running', 'paused', 'done', 'aborted', 'stopped')),
    version          integer NOT NULL DEFAULT 1,  -- grows with each change of the state
    reason           text,  -- why it was stopped
    ended_at         timestamptz,
    -- Letters are selected the newest first; the next ones come behind this one.
    cursor_at        timestamptz,
    cursor_id        uuid,
    is_selected      boolean NOT NULL DEFAULT false,  -- whether all are
    selected         integer NOT NULL DEFAULT 0,
    handled          integer NOT NULL DEFAULT 0,  -- letters up to this number have their result
    done             integer NOT NULL DEFAULT 0,
    failed           integer NOT NULL DEFAULT 0,
    skipped          integer NOT NULL DEFAULT 0,
    canary_begun_at  timestamptz,  -- when the last of the canary was
    canary_passed_at timestamptz,
    stepped_at       timestamptz NOT NULL,  -- until when the rate is used up
    UNIQUE (tenant_id, id),
    CHECK ((ended_at IS NULL) = (state IN ('waiting', 'canary', 'running', 'paused'))),
    CHECK ((cursor_at IS NULL) = (cursor_id IS NULL)),
    CHECK (done + failed + skipped = handled AND handled <= selected),
    CHECK (canary IS NULL OR action = 'retry'),
    CHECK (note IS NOT NULL OR action = 'retry')
);
CREATE INDEX dead_letter_operation_to_step ON dead_letter_operation (requested_at, id)
    WHERE state IN ('waiting', 'canary', 'running');
CREATE INDEX dead_letter_operation_by_tenant ON dead_letter_operation (tenant_id, requested_at DESC, id DESC);
CREATE INDEX dead_letter_operation_ended ON dead_letter_operation (ended_at) WHERE ended_at IS NOT NULL;

-- The letters of an operation in the order in which it takes them. They outlive the letters themselves.
CREATE TABLE dead_letter_operation_item (
    operation_id uuid NOT NULL,
    number       integer NOT NULL,
    tenant_id    uuid NOT NULL,
    job_id       uuid NOT NULL,
    result       text CHECK (result IN ('done', 'failed', 'skipped')),  -- NULL: its turn has not come
    reason       text,
    version      integer,  -- of the letter then
    revision     integer,  -- of the work that was begun
    PRIMARY KEY (operation_id, number),
    UNIQUE (operation_id, job_id),
    FOREIGN KEY (tenant_id, operation_id) REFERENCES dead_letter_operation (tenant_id, id) ON DELETE CASCADE,
    CHECK ((reason IS NULL) = (result IS NULL OR result = 'done'))
) WITH (fillfactor = 80);

-- A group that was resolved or ignored is so until a letter of it dies later.
ALTER TABLE dead_letter_group
    ADD settled_as text CHECK (settled_as IN ('resolved', 'ignored')),
    ADD settled_at timestamptz,
    ADD CHECK ((settled_as IS NULL) = (settled_at IS NULL));
GRANT UPDATE (settled_as, settled_at) ON dead_letter_group TO counterfoil_worker;

DO $security$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['dead_letter_operation', 'dead_letter_operation_item'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format($policy$CREATE POLICY own_tenant ON %I TO counterfoil_worker
            USING (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)
            WITH CHECK (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)$policy$, name);
        EXECUTE format('GRANT SELECT, INSERT ON %I TO counterfoil_worker', name);
    END LOOP;
END
$security$;
GRANT UPDATE (state, version, reason, ended_at, cursor_at, cursor_id, is_selected, selected, handled, done, failed,
              skipped, canary_begun_at, canary_passed_at, stepped_at) ON dead_letter_operation TO counterfoil_worker;
GRANT UPDATE (result, reason, version, revision) ON dead_letter_operation_item TO counterfoil_worker;
-- Which operations of any tenant go on is asked as the delivery role, which learns no more of them.
CREATE POLICY delivery ON dead_letter_operation FOR SELECT TO counterfoil_delivery USING (true);
GRANT SELECT (id, tenant_id, state, requested_at, ended_at) ON dead_letter_operation TO counterfoil_delivery;

-- The watchdog deletes what ended 90 days ago.
CREATE POLICY past_keeping ON dead_letter_operation FOR DELETE TO counterfoil_keeper
    USING (ended_at < now() - interval '90 days');
GRANT DELETE ON dead_letter_operation TO counterfoil_keeper;

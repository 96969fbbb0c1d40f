-- Queues as people see them: finished and waiting work per minute, and pauses.

-- Work that has just finished, a row for each, so that settling waits for no other transaction. The watchdog adds
-- them up each minute. Only charts use them, so a crash of the server may lose the last minute.
CREATE UNLOGGED TABLE work_ended (
    worker    text NOT NULL,
    tenant_id uuid,
    outcome   text NOT NULL CHECK (outcome IN ('succeeded', 'skipped', 'failed')),
    ended_at  timestamptz NOT NULL
);

-- Minutes of the last hours for each worker: of a tenant, and (tenant_id NULL) of all work together, including
-- unassigned.
CREATE TABLE queue_minute (
    tenant_id uuid REFERENCES tenant (id) ON DELETE CASCADE,
    worker    text NOT NULL,
    minute    timestamptz NOT NULL,
    succeeded integer NOT NULL DEFAULT 0,
    skipped   integer NOT NULL DEFAULT 0,
    failed    integer NOT NULL DEFAULT 0,
    pending   integer,  -- this and the next three as the watchdog measured them; NULL: not measured
    oldest    integer,  -- seconds since the oldest pending work was due; NULL: none was
    dead      integer,  -- pending dead letters
    depth     integer,  -- messages in its queues, including those in flight and delayed, as SQS estimates
    UNIQUE NULLS NOT DISTINCT (tenant_id, worker, minute)
);
CREATE INDEX queue_minute_by_age ON queue_minute (minute);

-- A pause that a person requested or ended. A queue serves all tenants, so a row has none either.
CREATE TABLE queue_pause (
    worker       text PRIMARY KEY,
    is_paused    boolean NOT NULL,
    reason       text NOT NULL,
    changed_by   text NOT NULL,
    changed_at   timestamptz NOT NULL,
    is_in_effect boolean NOT NULL DEFAULT false,  -- whether the event source mappings were switched since
    version      integer NOT NULL DEFAULT 1       -- grows with each change; a caller sends the version that it saw
);
GRANT SELECT, INSERT, UPDATE ON queue_pause TO counterfoil_delivery;

DO $security$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['work_ended', 'queue_minute'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format($policy$CREATE POLICY own_tenant ON %I TO counterfoil_worker
            USING (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)
            WITH CHECK (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)$policy$, name);
    END LOOP;
END
$security$;
DO $security$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['work_ended', 'queue_minute'] LOOP
        EXECUTE format('CREATE POLICY delivery ON %I TO counterfoil_delivery USING (true) WITH CHECK (true)', name);
        EXECUTE format('GRANT SELECT ON %I TO counterfoil_worker, counterfoil_delivery', name);
        EXECUTE format('GRANT DELETE ON %I TO counterfoil_keeper', name);
    END LOOP;
END
$security$;
GRANT INSERT ON work_ended TO counterfoil_worker, counterfoil_delivery;
GRANT INSERT, UPDATE (succeeded, skipped, failed, pending, oldest, dead, depth) ON queue_minute
    TO counterfoil_keeper;

-- Counts each kind of work. Work that is cancelled before it began does not count.
CREATE FUNCTION count_ended_work() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $count$
DECLARE
    outcome text;
BEGIN
    IF TG_TABLE_NAME = 'document' THEN
        outcome := coalesce(NEW.matching_status, 'skipped');
    ELSE
        outcome := coalesce(NEW.status, 'skipped');
    END IF;
    INSERT INTO work_ended (worker, tenant_id, outcome, ended_at)
    VALUES (TG_ARGV[0], NEW.tenant_id, outcome, clock_timestamp());
    RETURN NULL;
END
$count$;
DO $kinds$
DECLARE
    kind record;
BEGIN
    FOR kind IN SELECT * FROM (VALUES
        ('acquisition', 'acquisition_job', 'status'), ('ingestion', 'ingestion_job', 'status'),
        ('matching', 'document', 'matching_status'), ('diagnostics', 'cluster_diagnostics', 'status'),
        ('document_output', 'output_job', 'status'), ('tasks', 'task', 'status'),
        ('offers', 'offer_shard', 'status')) AS k (worker, relation, state)
    LOOP
        EXECUTE format($trigger$
            CREATE TRIGGER counted_when_it_ends AFTER UPDATE OF %2$I ON %1$I FOR EACH ROW
            WHEN (OLD.%2$I IN ('pending', 'in-progress') AND NEW.%2$I IN ('succeeded', 'failed')
                  OR OLD.%2$I = 'in-progress' AND NEW.%2$I IS NULL)
            EXECUTE FUNCTION count_ended_work(%3$L)$trigger$, kind.relation, kind.state, kind.worker);
    END LOOP;
END
$kinds$;

-- Data for the queue pages: finished and pending work items per minute, and pauses.

-- One row per finished work item. With shared counters, settlements would wait for each other. The watchdog adds the
-- rows up every minute. The table is unlogged, because only charts use it, and a server crash may lose the last minute.
CREATE UNLOGGED TABLE finished_work (
    worker    text NOT NULL,
    tenant_id uuid,
    outcome   text NOT NULL CHECK (outcome IN ('succeeded', 'skipped', 'failed')),
    ended_at  timestamptz NOT NULL
);

-- Figures for the last two hours by worker, minute and tenant. If tenant_id is NULL, they cover all work items,
-- including unassigned ones.
CREATE TABLE queue_minute_stats (
    tenant_id      uuid REFERENCES tenant (id) ON DELETE CASCADE,
    worker         text NOT NULL,
    minute         timestamptz NOT NULL,
    succeeded      integer NOT NULL DEFAULT 0,
    skipped        integer NOT NULL DEFAULT 0,
    failed         integer NOT NULL DEFAULT 0,
    pending        integer,  -- measured by the watchdog, like the next three columns; NULL: not measured
    oldest_seconds integer,  -- seconds since the oldest pending work item became due; NULL: none is due
    dead_letters   integer,  -- pending dead letters
    depth          integer,  -- SQS's estimate of all messages in the worker's queues
    UNIQUE NULLS NOT DISTINCT (tenant_id, worker, minute)
);
CREATE INDEX queue_minute_stats_by_age ON queue_minute_stats (minute);

-- The last request to pause or resume each queue. A queue serves all tenants, so a row has no tenant.
CREATE TABLE queue_pause (
    worker     text PRIMARY KEY,
    is_paused  boolean NOT NULL,
    reason     text NOT NULL,
    changed_by text NOT NULL,
    changed_at timestamptz NOT NULL,
    is_applied boolean NOT NULL DEFAULT false,  -- whether the request was applied to all mappings
    version    integer NOT NULL DEFAULT 1       -- increases with each change; callers send the version that they read
);
GRANT SELECT, INSERT, UPDATE ON queue_pause TO counterfoil_delivery;

DO $security$
DECLARE
    table_name text;
BEGIN
    FOREACH table_name IN ARRAY ARRAY['finished_work', 'queue_minute_stats'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', table_name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', table_name);
        EXECUTE format($policy$CREATE POLICY own_tenant ON %I TO counterfoil_worker
            USING (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)
            WITH CHECK (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)$policy$, table_name);
    END LOOP;
END
$security$;
DO $security$
DECLARE
    table_name text;
BEGIN
    FOREACH table_name IN ARRAY ARRAY['finished_work', 'queue_minute_stats'] LOOP
        EXECUTE format('CREATE POLICY delivery ON %I TO counterfoil_delivery USING (true) WITH CHECK (true)',
                       table_name);
        EXECUTE format('GRANT SELECT ON %I TO counterfoil_worker, counterfoil_delivery', table_name);
        EXECUTE format('GRANT DELETE ON %I TO counterfoil_maintenance', table_name);
    END LOOP;
END
$security$;
GRANT INSERT ON finished_work TO counterfoil_worker, counterfoil_delivery;
GRANT INSERT, UPDATE (succeeded, skipped, failed, pending, oldest_seconds, dead_letters, depth) ON queue_minute_stats
    TO counterfoil_maintenance;

-- Adds a row for each work item that ends. A work item that is canceled before its first attempt is not counted.
CREATE FUNCTION count_finished_work() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $count$
DECLARE
    outcome text;
BEGIN
    IF TG_TABLE_NAME = 'document' THEN
        outcome := coalesce(NEW.matching_status, 'skipped');
    ELSE
        outcome := coalesce(NEW.status, 'skipped');
    END IF;
    INSERT INTO finished_work (worker, tenant_id, outcome, ended_at)
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
            CREATE TRIGGER count_on_finish AFTER UPDATE OF %2$I ON %1$I FOR EACH ROW
            WHEN (OLD.%2$I IN ('pending', 'in-progress') AND NEW.%2$I IN ('succeeded', 'failed')
                  OR OLD.%2$I = 'in-progress' AND NEW.%2$I IS NULL)
            EXECUTE FUNCTION count_finished_work(%3$L)$trigger$, kind.relation, kind.state, kind.worker);
    END LOOP;
END
$kinds$;

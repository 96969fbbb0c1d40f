-- depends: 0037.change_allowance
-- What a console of dead letters needs: pages that stay quick, groups of what died of the same, counts, words to search.

ALTER TABLE dead_letter ADD version integer NOT NULL DEFAULT 1;  -- grows with each change: who changes it says what he saw
ALTER TABLE dead_letter ADD purged_at timestamptz;  -- taken out of sight; deleted for good a week later

-- Pages are read in this order, of one state at a time; a page of several states is merged from theirs.
CREATE INDEX dead_letter_page ON dead_letter (tenant_id, status, dlq_timestamp DESC, job_id DESC) WHERE purged_at IS NULL;
CREATE INDEX dead_letter_page_of_type ON dead_letter (tenant_id, task_type, status, dlq_timestamp DESC, job_id DESC)
    WHERE purged_at IS NULL;
CREATE INDEX dead_letter_page_of_group ON dead_letter (tenant_id, fingerprint, status, dlq_timestamp DESC, job_id DESC)
    WHERE purged_at IS NULL;
CREATE INDEX dead_letter_purged ON dead_letter (purged_at) WHERE purged_at IS NOT NULL;

-- What the letters of one fingerprint have alike: written with the first of them.
CREATE TABLE dead_letter_group (
    tenant_id   uuid REFERENCES tenant (id) ON DELETE CASCADE,
    fingerprint text NOT NULL,
    worker      text NOT NULL,
    error_type  text NOT NULL,
    sentence    text NOT NULL,  -- of the error, without what differs from letter to letter
    words       text[] NOT NULL,  -- of all of these
    first_seen  timestamptz NOT NULL,
    UNIQUE NULLS NOT DISTINCT (tenant_id, fingerprint)
);

-- Words that a letter has beside those of its group: of its file's name and of what differs in its error.
CREATE TABLE dead_letter_word (
    job_id        uuid NOT NULL REFERENCES dead_letter (job_id) ON DELETE CASCADE,
    tenant_id     uuid,
    word          text NOT NULL,
    dlq_timestamp timestamptz NOT NULL,
    PRIMARY KEY (job_id, word)
);
CREATE INDEX dead_letter_word_page ON dead_letter_word (tenant_id, word, dlq_timestamp DESC, job_id DESC);

-- How many letters of a group and a type there are in each state (hour NULL), and how many died in each hour (status
-- NULL). A change adds rows, so that nobody waits for another one; the watchdog adds up those that are alike.
CREATE TABLE dead_letter_count (
    tenant_id   uuid REFERENCES tenant (id) ON DELETE CASCADE,
    fingerprint text NOT NULL,
    task_type   text NOT NULL,
    status      text CHECK (status IN ('pending', 'retried', 'resolved', 'ignored')),
    hour        timestamptz,
    number      bigint NOT NULL,
    last_at     timestamptz NOT NULL,  -- no letter of this state died later
    is_sum      boolean NOT NULL DEFAULT false,
    CHECK ((status IS NULL) <> (hour IS NULL))
);
CREATE INDEX dead_letter_count_by_state ON dead_letter_count (tenant_id, fingerprint, task_type, status)
    INCLUDE (number, last_at) WHERE hour IS NULL;
CREATE INDEX dead_letter_count_by_hour ON dead_letter_count (tenant_id, fingerprint, hour) INCLUDE (number)
    WHERE hour IS NOT NULL;
CREATE INDEX dead_letter_count_to_add ON dead_letter_count (tenant_id, fingerprint) WHERE NOT is_sum;

CREATE FUNCTION count_dead_letters() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $count$
BEGIN
    IF TG_OP <> 'DELETE' THEN
        INSERT INTO dead_letter_count (tenant_id, fingerprint, task_type, status, number, last_at)
        SELECT tenant_id, fingerprint, task_type, status, count(*), max(dlq_timestamp) FROM new_rows
        WHERE purged_at IS NULL GROUP BY 1, 2, 3, 4;
    END IF;
    IF TG_OP <> 'INSERT' THEN
        INSERT INTO dead_letter_count (tenant_id, fingerprint, task_type, status, number, last_at)
        SELECT tenant_id, fingerprint, task_type, status, -count(*), min(dlq_timestamp) FROM old_rows o
        WHERE purged_at IS NULL  -- what goes with its tenant has nowhere to be counted
          AND (TG_OP = 'UPDATE' OR tenant_id IS NULL OR EXISTS (SELECT FROM tenant t WHERE t.id = o.tenant_id))
        GROUP BY 1, 2, 3, 4;
    END IF;
    IF TG_OP = 'INSERT' THEN
        INSERT INTO dead_letter_count (tenant_id, fingerprint, task_type, hour, number, last_at)
        SELECT tenant_id, fingerprint, task_type, date_trunc('hour', dlq_timestamp, 'UTC'), count(*), max(dlq_timestamp)
        FROM new_rows GROUP BY 1, 2, 3, 4;
    ELSIF TG_OP = 'UPDATE' THEN
        INSERT INTO dead_letter_count (tenant_id, fingerprint, task_type, hour, number, last_at)
        SELECT n.tenant_id, n.fingerprint, n.task_type, date_trunc('hour', n.dlq_timestamp, 'UTC'), count(*),
               max(n.dlq_timestamp)
        FROM new_rows n JOIN old_rows o USING (job_id) WHERE n.dlq_timestamp > o.dlq_timestamp GROUP BY 1, 2, 3, 4;
        -- A letter that was nobody's until its tenant was known takes with it what it is found by.
        IF EXISTS (SELECT FROM new_rows n JOIN old_rows o USING (job_id) WHERE n.tenant_id IS DISTINCT FROM o.tenant_id)
        THEN
            INSERT INTO dead_letter_group (tenant_id, fingerprint, worker, error_type, sentence, words, first_seen)
            SELECT n.tenant_id, g.fingerprint, g.worker, g.error_type, g.sentence, g.words, n.dlq_timestamp
            FROM new_rows n JOIN old_rows o USING (job_id)
            JOIN dead_letter_group g ON g.tenant_id IS NOT DISTINCT FROM o.tenant_id AND g.fingerprint = n.fingerprint
            WHERE n.tenant_id IS DISTINCT FROM o.tenant_id
            ON CONFLICT (tenant_id, fingerprint) DO NOTHING;
            UPDATE dead_letter_word w SET tenant_id = n.tenant_id
            FROM new_rows n JOIN old_rows o USING (job_id)
            WHERE w.job_id = n.job_id AND n.tenant_id IS DISTINCT FROM o.tenant_id;
        END IF;
    END IF;
    RETURN NULL;
END
$count$;
CREATE TRIGGER counted_when_it_comes AFTER INSERT ON dead_letter
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION count_dead_letters();
CREATE TRIGGER counted_when_it_changes AFTER UPDATE ON dead_letter
    REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION count_dead_letters();
CREATE TRIGGER counted_when_it_goes AFTER DELETE ON dead_letter
    REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION count_dead_letters();

DO $security$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['dead_letter_group', 'dead_letter_word', 'dead_letter_count'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format($policy$CREATE POLICY own_tenant ON %I TO counterfoil_worker
            USING (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)
            WITH CHECK (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)$policy$, name);
        EXECUTE format('CREATE POLICY delivery ON %I TO counterfoil_delivery USING (true) WITH CHECK (true)', name);
        -- As on dead_letter: for functions that act as the owner, for one tenant.
        EXECUTE format($policy$CREATE POLICY telling ON %I TO counterfoil_owner
            USING (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)
            WITH CHECK (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)$policy$, name);
        EXECUTE format('GRANT SELECT, INSERT ON %I TO counterfoil_worker, counterfoil_delivery', name);
    END LOOP;
END
$security$;
GRANT DELETE ON dead_letter_word TO counterfoil_worker, counterfoil_delivery;  -- of a letter that died again
GRANT UPDATE (tenant_id) ON dead_letter_word TO counterfoil_delivery;  -- of a letter whose tenant came late
GRANT DELETE ON dead_letter_count TO counterfoil_keeper;

-- Letters that are there already: the owner, whom row-level security binds, too, has to see and to write them.
ALTER TABLE dead_letter NO FORCE ROW LEVEL SECURITY;
ALTER TABLE dead_letter_group NO FORCE ROW LEVEL SECURITY;
ALTER TABLE dead_letter_count NO FORCE ROW LEVEL SECURITY;
ALTER TABLE dead_letter_word NO FORCE ROW LEVEL SECURITY;
INSERT INTO dead_letter_group (tenant_id, fingerprint, worker, error_type, sentence, words, first_seen)
SELECT DISTINCT ON (tenant_id, fingerprint) tenant_id, fingerprint, worker, error_type, sentence,
       regexp_split_to_array(lower(trim(regexp_replace(concat_ws(' ', worker, error_type, sentence), '[\W_]+', ' ', 'g'))), ' '),
       dlq_timestamp
FROM dead_letter CROSS JOIN LATERAL (
    SELECT coalesce(metadata #>> '{last_error,type}', '') AS error_type,
           regexp_replace(coalesce(metadata #>> '{last_error,message}', ''),
                          '''[^'']*''|"[^"]*"|[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}|\d+', '#', 'g') AS sentence
) AS said
ORDER BY tenant_id, fingerprint, dlq_timestamp;
INSERT INTO dead_letter_count (tenant_id, fingerprint, task_type, status, number, last_at, is_sum)
SELECT tenant_id, fingerprint, task_type, status, count(*), max(dlq_timestamp), true FROM dead_letter GROUP BY 1, 2, 3, 4;
INSERT INTO dead_letter_count (tenant_id, fingerprint, task_type, hour, number, last_at, is_sum)
SELECT tenant_id, fingerprint, task_type, date_trunc('hour', dlq_timestamp, 'UTC'), count(*), max(dlq_timestamp), true
FROM dead_letter WHERE dlq_timestamp > now() - interval '7 days' GROUP BY 1, 2, 3, 4;
INSERT INTO dead_letter_word (job_id, tenant_id, word, dlq_timestamp)
SELECT DISTINCT job_id, tenant_id, left(word, 64), dlq_timestamp
FROM dead_letter CROSS JOIN LATERAL regexp_split_to_table(
    lower(concat_ws(' ', payload #>> '{file,file_name}', metadata #>> '{last_error,message}')), '[\W_]+') AS word
WHERE word <> '';
ALTER TABLE dead_letter FORCE ROW LEVEL SECURITY;
ALTER TABLE dead_letter_group FORCE ROW LEVEL SECURITY;
ALTER TABLE dead_letter_count FORCE ROW LEVEL SECURITY;
ALTER TABLE dead_letter_word FORCE ROW LEVEL SECURITY;

-- Daily offers: users' profiles, pools and shards by date, and each user's offers.

-- Returns a profile as a fixed number of bytes, most significant byte first. The size of each value in bytes is in
-- parentheses. Ids: user id (16), external id (16). Place on the unit sphere: x, y and z in units of 2^-22 (4 each).
-- Birth date: yyyymmdd (4). Gender and genders sought, as bits: woman 1, man 2, nonbinary 4 (2 each). Minimum and
-- maximum age sought (2 each). Maximum distance in km (4). Sixteen traits in units of 1/127 (1 each): -128 encodes NaN,
-- and a missing trait is 0.
CREATE FUNCTION pack_profile(user_id uuid, external_id uuid, birth_date date, gender text, seeks_genders text[],
    min_age integer,
                              max_age integer, latitude double precision, longitude double precision,
                              max_distance_km integer, traits real[])
RETURNS bytea LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $packed$
DECLARE
    scale constant double precision := 4194304;
    genders constant text[] := '{woman,man,nonbinary}';
    gender_bits integer := 0;
    packed_traits bytea := '\x00000000000000000000000000000000';
BEGIN
    FOR i IN 1..3 LOOP
        IF genders[i] = ANY (seeks_genders) THEN gender_bits := gender_bits | (1 << (i - 1)); END IF;
    END LOOP;
    FOR i IN 1..coalesce(cardinality(traits), 0) LOOP
        packed_traits := set_byte(packed_traits, i - 1, CASE WHEN traits[i] = 'NaN' THEN 128 ELSE
            round(127 * greatest(-1, least(1, coalesce(traits[i], 0))))::integer & 255 END);
    END LOOP;
    RETURN uuid_send(user_id) || uuid_send(external_id)
        || int4send(round(scale * cosd(latitude) * cosd(longitude))::integer)
        || int4send(round(scale * cosd(latitude) * sind(longitude))::integer)
        || int4send(round(scale * sind(latitude))::integer)
        || int4send((extract(year FROM birth_date) * 10000 + extract(month FROM birth_date) * 100 + extract(day FROM
            birth_date))::integer)
        || int2send((1 << (array_position(genders, gender) - 1))::smallint) || int2send(gender_bits::smallint)
        || int2send(min_age::smallint) || int2send(max_age::smallint) || int4send(max_distance_km) || packed_traits;
END
$packed$;

CREATE TABLE profile (
    -- UUIDv5 of tenant and external_id, which makes (date, user_id) unique across tenants.
    user_id         uuid PRIMARY KEY,
    tenant_id       uuid NOT NULL REFERENCES tenant (id) ON DELETE CASCADE,
    timezone        text NOT NULL CHECK (length(timezone) BETWEEN 1 AND 64),
    is_active       boolean NOT NULL DEFAULT true,
    birth_date      date NOT NULL CHECK (birth_date BETWEEN '1900-01-01' AND '2100-01-01'),
    gender          text NOT NULL CHECK (gender IN ('woman', 'man', 'nonbinary')),
    seeks_genders   text[] NOT NULL CHECK (seeks_genders <@ '{woman,man,nonbinary}' AND cardinality(seeks_genders)
        BETWEEN 1 AND 3),
    min_age         integer NOT NULL CHECK (min_age BETWEEN 18 AND 120),
    max_age         integer NOT NULL CHECK (max_age BETWEEN min_age AND 120),
    latitude        double precision NOT NULL CHECK (latitude BETWEEN -90 AND 90),
    longitude       double precision NOT NULL CHECK (longitude BETWEEN -180 AND 180),
    max_distance_km integer NOT NULL CHECK (max_distance_km BETWEEN 1 AND 20100),
    traits          real[] NOT NULL DEFAULT '{}' CHECK (cardinality(traits) <= 16),  -- -1 to 1; NULL: not answered
    updated_at      timestamptz NOT NULL,
    external_id     uuid NOT NULL,  -- the tenant's id of the user
    packed_row      bytea NOT NULL GENERATED ALWAYS AS (pack_profile(
                    user_id, external_id, birth_date, gender, seeks_genders, min_age, max_age, latitude, longitude,
                        max_distance_km,
                    traits)) STORED,
    UNIQUE (tenant_id, external_id)
);
CREATE INDEX profile_by_zone ON profile (tenant_id, timezone, user_id) WHERE is_active;

-- Blocks of users by other users. Neither of the two is offered to the other.
CREATE TABLE user_block (
    user_id             uuid NOT NULL REFERENCES profile (user_id) ON DELETE CASCADE,
    blocked_id          uuid NOT NULL CHECK (blocked_id <> user_id),
    tenant_id           uuid NOT NULL REFERENCES tenant (id) ON DELETE CASCADE,
    created_at          timestamptz NOT NULL,
    blocked_external_id uuid NOT NULL,
    PRIMARY KEY (user_id, blocked_id)
);
CREATE INDEX user_block_by_blocked ON user_block (blocked_id);
CREATE INDEX user_block_by_tenant ON user_block (tenant_id);

-- Pools: snapshots of the users in one time zone, who are offered to each other on one date. The users are stored in
-- the pool's shards. A user is in only one pool per date, because a user has one job per date.
CREATE TABLE offer_pool (
    id                uuid PRIMARY KEY,  -- UUIDv5 of tenant, date and zone
    tenant_id         uuid NOT NULL REFERENCES tenant (id) ON DELETE CASCADE,
    date              date NOT NULL,
    timezone          text NOT NULL,
    offered_at        timestamptz NOT NULL,  -- 9:00 on the date in the time zone
    expires_at        timestamptz NOT NULL,  -- 9:00 on the next date
    algorithm_version integer NOT NULL,
    rules             jsonb NOT NULL,        -- offers and candidates per user, exposure cap, repeat interval in days
    user_count        integer NOT NULL,
    profiles_hash     bytea NOT NULL CHECK (octet_length(profiles_hash) = 32),  -- hash of the profiles in its shards
    pinned_at         timestamptz NOT NULL,
    UNIQUE (tenant_id, date, timezone),
    CHECK (expires_at > offered_at)
);
CREATE INDEX offer_pool_by_age ON offer_pool (date);
CREATE INDEX offer_pool_by_time ON offer_pool (tenant_id, offered_at, id);

-- Work items that compute the day's offers for some users. A shard that was pinned with the pool contains a range of
-- the pool's users. Other shards contain late or quarantined users, whose profiles are read when the shard runs.
CREATE TABLE offer_shard (
    id               uuid PRIMARY KEY,  -- UUIDv5 of pool and name
    tenant_id        uuid NOT NULL REFERENCES tenant (id) ON DELETE CASCADE,
    pool_id          uuid NOT NULL REFERENCES offer_pool (id) ON DELETE CASCADE,
    name             text NOT NULL,     -- '0', '1', ... for shards that were pinned with the pool
    date             date NOT NULL,
    timezone         text NOT NULL,
    created_at       timestamptz NOT NULL,
    users            uuid[] NOT NULL CHECK (cardinality(users) > 0),  -- sorted by id
    size             integer NOT NULL GENERATED ALWAYS AS (cardinality(users)) STORED,
    profiles         bytea CHECK (octet_length(profiles) = 76 * cardinality(users)),
    excluded         bytea,             -- excluded pairs of user and candidate, stored by the first attempt
    completed        integer,           -- number of users whose offers were computed
    failed           integer,           -- number of users with invalid profiles
    completed_at     timestamptz,       -- when it succeeded or failed
    status           text DEFAULT 'pending' CHECK (status IN ('pending', 'in-progress', 'succeeded', 'failed')),
    error            text,
    attempts         integer NOT NULL DEFAULT 0,
    failed_at        timestamptz,
    revision         integer NOT NULL DEFAULT 0,
    claim_token      bigint NOT NULL DEFAULT 0,
    claimed_at       timestamptz,
    lease_expires_at timestamptz,
    next_attempt_at  timestamptz,
    send_number      integer NOT NULL DEFAULT 0,
    dlq_returns      integer NOT NULL DEFAULT 0,
    skip_reason      text,
    seconds          double precision,  -- time from the last attempt's claim to the end
    UNIQUE (pool_id, name)
);
ALTER TABLE offer_shard ALTER profiles SET STORAGE EXTERNAL;  -- compression gains little and costs CPU time
CREATE INDEX offer_shard_status ON offer_shard (status) WHERE status IN ('pending', 'in-progress');
CREATE INDEX offer_shard_by_tenant ON offer_shard (tenant_id);
CREATE INDEX offer_shard_with_profiles ON offer_shard (date) WHERE profiles IS NOT NULL OR excluded IS NOT NULL;

-- A user's offers for a date in the user's time zone.
CREATE TABLE matchmaking_jobs (
    id                uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    date              date NOT NULL,
    timezone          text NOT NULL,
    user_id           uuid NOT NULL REFERENCES profile (user_id) ON DELETE CASCADE,
    status            text NOT NULL CHECK (status IN ('pending', 'running', 'completed', 'failed')),
    offers            jsonb DEFAULT NULL,
    started_at        timestamptz,
    completed_at      timestamptz,
    error_message     text,
    retry_count       integer DEFAULT 0,
    tenant_id         uuid NOT NULL,
    shard_id          uuid NOT NULL,        -- work item that computes the offers
    algorithm_version integer,
    inputs_hash       bytea CHECK (octet_length(inputs_hash) = 32),
    lease_expires_at  timestamptz,          -- set by the claim; heartbeats renew only the shard's lease
    attempt           integer NOT NULL DEFAULT 0,
    UNIQUE (date, user_id),
    CHECK ((status = 'completed') = (completed_at IS NOT NULL)),
    CHECK ((status = 'completed') = (offers IS NOT NULL))
);
CREATE INDEX idx_matchmaking_jobs_status ON matchmaking_jobs (status);
CREATE INDEX idx_matchmaking_jobs_date_timezone ON matchmaking_jobs (date, timezone);
CREATE INDEX matchmaking_jobs_failed ON matchmaking_jobs (date, timezone, user_id) WHERE status = 'failed';
-- Finds a shard's jobs. Table statistics never include today. Without this index, the planner would expect no jobs for
-- the date, and read all of them for each shard.
CREATE INDEX matchmaking_jobs_by_shard ON matchmaking_jobs (shard_id);

CREATE TABLE offers (
    date         date NOT NULL,
    user_id      uuid NOT NULL,
    candidate_id uuid NOT NULL,
    tenant_id    uuid NOT NULL,
    id           uuid NOT NULL,             -- UUIDv5 of date, user and candidate
    rank         smallint NOT NULL CHECK (rank > 0),
    score        integer NOT NULL CHECK (score BETWEEN 0 AND 10000),
    offered_at   timestamptz NOT NULL,
    expires_at   timestamptz NOT NULL,
    CONSTRAINT offers_once UNIQUE (date, user_id, candidate_id)
);

DO $security$
DECLARE
    table_name text;
BEGIN
    FOREACH table_name IN ARRAY ARRAY['profile', 'user_block', 'offer_pool', 'offer_shard', 'matchmaking_jobs',
                                'offers'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', table_name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', table_name);
        EXECUTE format($policy$CREATE POLICY own_tenant ON %I TO counterfoil_worker
            USING (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)
            WITH CHECK (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)$policy$, table_name);
    END LOOP;
END
$security$;

GRANT SELECT, INSERT, UPDATE (timezone, is_active, birth_date, gender, seeks_genders, min_age, max_age, latitude,
    longitude, max_distance_km,
                              traits, updated_at), DELETE
    ON profile TO counterfoil_worker;
GRANT SELECT, INSERT, DELETE ON user_block TO counterfoil_worker;
GRANT SELECT, INSERT ON offer_pool, offers TO counterfoil_worker;
GRANT SELECT, INSERT, UPDATE (status, offers, started_at, completed_at, error_message, retry_count, shard_id,
                              algorithm_version, inputs_hash, lease_expires_at, attempt)
    ON matchmaking_jobs TO counterfoil_worker;
GRANT SELECT, INSERT, UPDATE (excluded, completed, failed, status, error, attempts, failed_at, revision, claim_token,
                              claimed_at, lease_expires_at, next_attempt_at, send_number, dlq_returns, skip_reason)
    ON offer_shard TO counterfoil_worker;
-- The delivery role reads and changes the life cycle columns of all tenants' work items, but sees no content.
CREATE POLICY delivery ON offer_shard TO counterfoil_delivery USING (true) WITH CHECK (true);
GRANT SELECT (id, tenant_id, created_at, pool_id, name, date, timezone, size, completed, failed, completed_at, seconds,
              status, error, attempts, failed_at, revision, claim_token, claimed_at, lease_expires_at, next_attempt_at,
              send_number, dlq_returns, skip_reason),
      UPDATE (status, error, attempts, failed_at, revision, claim_token, claimed_at, lease_expires_at, next_attempt_at,
              send_number, dlq_returns, skip_reason)
    ON offer_shard TO counterfoil_delivery;
CREATE POLICY delivery ON offer_pool FOR SELECT TO counterfoil_delivery USING (true);
GRANT SELECT (id, tenant_id, date, timezone, offered_at, expires_at, user_count, pinned_at) ON offer_pool
    TO counterfoil_delivery;
-- After the retention, the watchdog deletes jobs with their offers, then pools with their shards, in steps.
CREATE POLICY retention ON matchmaking_jobs TO counterfoil_maintenance
    USING (date < now() - interval '90 days') WITH CHECK (false);
GRANT SELECT (id, date), DELETE ON matchmaking_jobs TO counterfoil_maintenance;
CREATE POLICY retention ON offer_pool FOR DELETE TO counterfoil_maintenance
    USING (date < now() - interval '90 days');
GRANT DELETE ON offer_pool TO counterfoil_maintenance;

-- For the functions below, which run as the owner.
CREATE POLICY owner_all ON matchmaking_jobs TO counterfoil_owner USING (true) WITH CHECK (true);
CREATE POLICY owner_all ON offers TO counterfoil_owner USING (true) WITH CHECK (true);
CREATE POLICY owner_all ON offer_shard TO counterfoil_owner USING (true) WITH CHECK (true);

CREATE FUNCTION set_shard_completed_at() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $date$
BEGIN
    NEW.completed_at := CASE WHEN NEW.status IN ('succeeded', 'failed') THEN clock_timestamp() END;
    NEW.seconds := CASE WHEN NEW.status = 'succeeded' THEN extract(epoch FROM NEW.completed_at - OLD.claimed_at) END;
    RETURN NEW;
END
$date$;
CREATE TRIGGER set_completed_at BEFORE UPDATE OF status ON offer_shard FOR EACH ROW
    WHEN (OLD.status IS DISTINCT FROM NEW.status) EXECUTE FUNCTION set_shard_completed_at();

-- Completed offers never change.
CREATE FUNCTION reject_completed_offer_update() RETURNS trigger LANGUAGE plpgsql AS $body$
BEGIN
    RAISE EXCEPTION 'The offers of user % for % are completed and cannot change', OLD.user_id, OLD.date
        USING ERRCODE = 'restrict_violation';
END
$body$;
CREATE TRIGGER reject_completed_update BEFORE UPDATE ON matchmaking_jobs FOR EACH ROW WHEN (OLD.status = 'completed')
    EXECUTE FUNCTION reject_completed_offer_update();

-- Copies a shard's changed state to its users' jobs, regardless of who changed it: a worker, the archiver or an
-- operator's retry.
CREATE FUNCTION sync_matchmaking_jobs() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $body$
BEGIN
    UPDATE matchmaking_jobs j SET
        status = CASE NEW.status WHEN 'in-progress' THEN 'running' ELSE NEW.status END,
        started_at = coalesce(NEW.claimed_at, j.started_at),
        lease_expires_at = NEW.lease_expires_at,
        attempt = NEW.attempts,
        retry_count = greatest(NEW.attempts - 1, 0),
        error_message = CASE WHEN NEW.status = 'in-progress' THEN j.error_message ELSE NEW.error END
    WHERE j.shard_id = NEW.id AND j.status <> 'completed';
    RETURN NULL;
END
$body$;
REVOKE ALL ON FUNCTION sync_matchmaking_jobs FROM PUBLIC;
CREATE TRIGGER sync_jobs AFTER UPDATE OF status ON offer_shard FOR EACH ROW
    WHEN (NEW.status IN ('pending', 'in-progress', 'failed')
          AND (OLD.status IS DISTINCT FROM NEW.status OR OLD.claim_token <> NEW.claim_token))
    EXECUTE FUNCTION sync_matchmaking_jobs();

-- Deletes a user's offers with the job. A foreign key would check each inserted row.
CREATE FUNCTION delete_orphaned_offers() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $body$
BEGIN
    DELETE FROM offers o USING deleted_jobs WHERE o.date = deleted_jobs.date AND o.user_id = deleted_jobs.user_id;
    RETURN NULL;
END
$body$;
REVOKE ALL ON FUNCTION delete_orphaned_offers FROM PUBLIC;
CREATE TRIGGER delete_orphaned_offers AFTER DELETE ON matchmaking_jobs REFERENCING OLD TABLE AS deleted_jobs
    FOR EACH STATEMENT EXECUTE FUNCTION delete_orphaned_offers();

-- Returns the number of offers that are duplicates or missing from the stored result, for users whose shard ended after
-- `since`. The number must be 0. The query runs user by user, because otherwise PostgreSQL would read months of offers
-- each hour.
CREATE FUNCTION count_duplicate_offers(since timestamptz) RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $duplicates$
    SELECT coalesce(sum(per_user.duplicates), 0)::bigint FROM (
        SELECT DISTINCT s.date, unnest(s.users) AS user_id FROM offer_shard s WHERE s.completed_at >= since
    ) AS served CROSS JOIN LATERAL (
        SELECT count(*) - least(count(DISTINCT o.candidate_id), max(o.rank)) AS duplicates
        FROM offers o WHERE o.date = served.date AND o.user_id = served.user_id
    ) AS per_user
$duplicates$;
REVOKE ALL ON FUNCTION count_duplicate_offers FROM PUBLIC;
GRANT EXECUTE ON FUNCTION count_duplicate_offers TO counterfoil_delivery;

-- Deletes shards' pinned profiles and exclusions after a week, long after the offers were computed.
CREATE FUNCTION clear_expired_pools(max_rows integer) RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $body$
    WITH cleared AS (
        UPDATE offer_shard SET profiles = NULL, excluded = NULL WHERE id = ANY(ARRAY(
            SELECT id FROM offer_shard
            WHERE date < now() - interval '7 days' AND (profiles IS NOT NULL OR excluded IS NOT NULL)
            ORDER BY date LIMIT max_rows FOR NO KEY UPDATE SKIP LOCKED
        )) RETURNING id
    ) SELECT count(*) FROM cleared
$body$;
REVOKE ALL ON FUNCTION clear_expired_pools FROM PUBLIC;
GRANT EXECUTE ON FUNCTION clear_expired_pools TO counterfoil_maintenance;

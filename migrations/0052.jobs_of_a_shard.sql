-- depends: 0051.letters_by_end
-- The jobs of a shard are found by the shard. By date and user the way depended on statistics, which never know of today:
-- they said that the date has no jobs, so all of them were read for each shard.

CREATE INDEX matchmaking_jobs_of_shard ON matchmaking_jobs (shard_id);

CREATE OR REPLACE FUNCTION follow_offer_shard() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $follow$
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
$follow$;

-- depends: 0070.upload_listing
-- How long the offers of a shard's users took: from the claim of its last attempt to its end.

ALTER TABLE offer_shard ADD COLUMN seconds double precision;
GRANT SELECT (seconds) ON offer_shard TO counterfoil_delivery;

CREATE OR REPLACE FUNCTION date_end_of_shard() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $date$
BEGIN
    NEW.ended_at := CASE WHEN NEW.status IN ('succeeded', 'failed') THEN clock_timestamp() END;
    NEW.seconds := CASE WHEN NEW.status = 'succeeded' THEN extract(epoch FROM NEW.ended_at - OLD.claimed_at) END;
    RETURN NEW;
END
$date$;

CREATE OR REPLACE FUNCTION date_end_of_shard() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $date$
BEGIN
    NEW.ended_at := CASE WHEN NEW.status IN ('succeeded', 'failed') THEN clock_timestamp() END;
    RETURN NEW;
END
$date$;
REVOKE SELECT (seconds) ON offer_shard FROM counterfoil_delivery;
ALTER TABLE offer_shard DROP COLUMN seconds;

CREATE OR REPLACE FUNCTION duplicate_offers(since timestamptz) RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $duplicates$
    SELECT coalesce(sum(twice), 0)::bigint FROM (
        SELECT count(*) - least(count(DISTINCT o.candidate_id), max(o.rank)) AS twice FROM (
            SELECT DISTINCT s.date, unnest(s.users) AS user_id FROM offer_shard s WHERE s.ended_at >= since
        ) AS served
        JOIN offers o ON o.date = served.date AND o.user_id = served.user_id
        GROUP BY o.date, o.user_id
    ) AS of_user
$duplicates$;

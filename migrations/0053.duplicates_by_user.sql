-- depends: 0052.jobs_of_a_shard
-- Duplicate offers are looked for user by user: with a month of offers PostgreSQL would read all of them each hour.

CREATE OR REPLACE FUNCTION duplicate_offers(since timestamptz) RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $duplicates$
    SELECT coalesce(sum(of_user.twice), 0)::bigint FROM (
        SELECT DISTINCT s.date, unnest(s.users) AS user_id FROM offer_shard s WHERE s.ended_at >= since
    ) AS served CROSS JOIN LATERAL (
        SELECT count(*) - least(count(DISTINCT o.candidate_id), max(o.rank)) AS twice
        FROM offers o WHERE o.date = served.date AND o.user_id = served.user_id
    ) AS of_user
$duplicates$;

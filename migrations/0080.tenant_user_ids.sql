-- depends: 0077.read_allowance
-- A user's id is chosen by the tenant (external_id) and unique within it. user_id is the UUIDv5 of tenant and external
-- id, so that UNIQUE (date, user_id) holds across tenants. PostgreSQL's core has no SHA-1: profiles cannot be converted
-- here, and this migration fails unless profile, profile_block and offer_shard are empty.

ALTER TABLE profile DROP COLUMN packed;
DROP FUNCTION packed_person;

-- A person as bytes of fixed length, most significant byte first. Ids: user id (16), external id (16). Place on the unit
-- sphere: x, y and z in units of 2^-22 (4 each). Birth date: yyyymmdd (4). Gender and genders sought, as bits: woman 1,
-- man 2, nonbinary 4 (2 each). Ages sought (2 each). Reach in km (4). Sixteen traits in units of 1/127 (1 each): -128 is
-- not a number, missing ones are 0.
CREATE FUNCTION packed_person(user_id uuid, external_id uuid, born date, gender text, seeks text[], min_age integer,
                              max_age integer, latitude double precision, longitude double precision,
                              reach_km integer, traits real[])
RETURNS bytea LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $packed$
DECLARE
    unit constant double precision := 4194304;
    genders constant text[] := '{woman,man,nonbinary}';
    bits integer := 0;
    tail bytea := '\x00000000000000000000000000000000';
BEGIN
    FOR i IN 1..3 LOOP
        IF genders[i] = ANY (seeks) THEN bits := bits | (1 << (i - 1)); END IF;
    END LOOP;
    FOR i IN 1..coalesce(cardinality(traits), 0) LOOP
        tail := set_byte(tail, i - 1, CASE WHEN traits[i] = 'NaN' THEN 128 ELSE
            round(127 * greatest(-1, least(1, coalesce(traits[i], 0))))::integer & 255 END);
    END LOOP;
    RETURN uuid_send(user_id) || uuid_send(external_id)
        || int4send(round(unit * cosd(latitude) * cosd(longitude))::integer)
        || int4send(round(unit * cosd(latitude) * sind(longitude))::integer)
        || int4send(round(unit * sind(latitude))::integer)
        || int4send((extract(year FROM born) * 10000 + extract(month FROM born) * 100 + extract(day FROM born))::integer)
        || int2send((1 << (array_position(genders, gender) - 1))::smallint) || int2send(bits::smallint)
        || int2send(min_age::smallint) || int2send(max_age::smallint) || int4send(reach_km) || tail;
END
$packed$;

ALTER TABLE profile
    ADD COLUMN external_id uuid NOT NULL,
    ADD COLUMN packed bytea NOT NULL GENERATED ALWAYS AS (packed_person(
        user_id, external_id, born, gender, seeks, min_age, max_age, latitude, longitude, reach_km, traits)) STORED,
    ADD UNIQUE (tenant_id, external_id);
ALTER TABLE profile_block ADD COLUMN blocked_external_id uuid NOT NULL;
ALTER TABLE offer_shard DROP CONSTRAINT offer_shard_check,
    ADD CONSTRAINT offer_shard_check CHECK (octet_length(people) = 76 * cardinality(users));

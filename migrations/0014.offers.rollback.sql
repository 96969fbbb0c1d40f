DROP FUNCTION forget_pooled_people, duplicate_offers;
DROP TABLE offers, matchmaking_jobs, offer_shard, offer_pool, profile_block, profile;
DROP FUNCTION forget_offers, follow_offer_shard, refuse_offer_change, date_end_of_shard, packed_person;

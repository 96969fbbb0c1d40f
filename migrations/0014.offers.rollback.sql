DROP FUNCTION clear_expired_pools, count_duplicate_offers;
DROP TABLE offers, matchmaking_jobs, offer_shard, offer_pool, user_block, profile;
DROP FUNCTION delete_orphaned_offers, sync_matchmaking_jobs, reject_completed_offer_update, set_shard_completed_at,
    pack_profile;

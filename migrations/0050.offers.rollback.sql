ALTER TABLE output_job DROP CONSTRAINT output_job_subject_check,
    ADD CONSTRAINT output_job_subject_check CHECK (subject IN ('cluster', 'document'));
ALTER TABLE destination DROP CONSTRAINT destination_events_check,
    ADD CONSTRAINT destination_events_check CHECK (events <@ ARRAY['cluster', 'document'] AND cardinality(events) > 0);
DROP TABLE offers, matchmaking_jobs, offer_shard, offer_pool, profile_block, profile;
DROP FUNCTION duplicate_offers, date_end_of_shard, forget_pooled_people, follow_offer_shard, forget_offers, refuse_offer_change, packed_person;

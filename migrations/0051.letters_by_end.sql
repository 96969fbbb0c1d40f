-- depends: 0050.offers
-- People name a dead letter by the end of its id, as tables show it: it is found backwards among ten million, too.

CREATE INDEX dead_letter_by_end ON dead_letter (reverse(right(job_id::text, 8)) COLLATE "C") WHERE purged_at IS NULL;

-- depends: 0010.late_tenants
-- What the watchdog deletes when nobody needs it any more, a bounded number in each round and by an index.
--
-- Sent messages of the outbox it may delete already (0002). dead_letter_audit is append-only on purpose: nobody deletes.

-- What calls of the language model cost is kept for 13 months, so that a month can be held against that of the year before.
-- counterfoil_keeper sees when a call was made and no more, and only of those that are past that.
CREATE INDEX llm_call_by_age ON llm_call (created_at);
CREATE POLICY past_keeping ON llm_call TO counterfoil_keeper
    USING (created_at < now() - interval '400 days') WITH CHECK (false);
GRANT SELECT (id, created_at), DELETE ON llm_call TO counterfoil_keeper;

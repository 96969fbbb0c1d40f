-- depends: 0071.offer_seconds
-- Only the owner may attach these functions to a table. The keeper attached them to a temporary table, and
-- an INSERT there became a webhook delivery for any tenant. A trigger of ours runs its function without this privilege.

REVOKE ALL ON FUNCTION tell_ingestion FROM PUBLIC;
REVOKE ALL ON FUNCTION tell_matching FROM PUBLIC;

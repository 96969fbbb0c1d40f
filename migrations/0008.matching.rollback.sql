DROP TABLE document_review, match_decision, document_match, document_embedding, key_deletion, document_key;
ALTER TABLE document
    DROP COLUMN matching_skip_reason, DROP COLUMN matching_dlq_returns, DROP COLUMN matching_send_number,
    DROP COLUMN matching_next_attempt_at, DROP COLUMN matching_lease_expires_at, DROP COLUMN matching_claimed_at,
    DROP COLUMN matching_claim_token, DROP COLUMN matching_revision;

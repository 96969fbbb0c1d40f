-- depends: 0058.audit_salt_of_nobody
-- What an undone purge brought back is kept for a week more. Until when stands with the letter, and neither it nor what
-- is out of sight is in the index of what retention looks at.

ALTER TABLE dead_letter ADD kept_until timestamptz;
CREATE INDEX dead_letter_kept ON dead_letter (kept_until, resolved_at) WHERE kept_until IS NOT NULL;
DROP INDEX dead_letter_by_settlement;
CREATE INDEX dead_letter_by_settlement ON dead_letter (resolved_at)
    WHERE status <> 'pending' AND purged_at IS NULL AND kept_until IS NULL;

DROP INDEX dead_letter_by_settlement;
CREATE INDEX dead_letter_by_settlement ON dead_letter (resolved_at) WHERE status <> 'pending';
ALTER TABLE dead_letter DROP kept_until;

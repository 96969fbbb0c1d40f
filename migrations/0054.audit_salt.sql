-- depends: 0053.duplicates_by_user
-- What the audit trail holds hashes of can be short, and guessed: they are keyed by a secret of the tenant's, which goes
-- with it. Each tenant gets another one.

ALTER TABLE tenant ADD COLUMN audit_salt bytea NOT NULL
    DEFAULT uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid());

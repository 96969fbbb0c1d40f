-- depends: 0055.trace_of_try
-- What the audit trail of nobody's letters and of queues' pauses holds hashes of can be as short, and is no tenant's:
-- they are keyed by one secret more. It is read in transactions of the delivery role, which that trail is written in.

CREATE TABLE audit_salt_of_nobody (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    salt    bytea NOT NULL DEFAULT uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())
);
INSERT INTO audit_salt_of_nobody DEFAULT VALUES;
GRANT SELECT ON audit_salt_of_nobody TO counterfoil_delivery;

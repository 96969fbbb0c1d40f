-- depends: 0060.letters_counted_at_once
-- Every task has an idempotency key: the API generates one if the caller sends none.

ALTER TABLE task NO FORCE ROW LEVEL SECURITY;
UPDATE task SET idempotency_key = id WHERE idempotency_key IS NULL;
ALTER TABLE task FORCE ROW LEVEL SECURITY;
ALTER TABLE task ALTER COLUMN idempotency_key SET NOT NULL;

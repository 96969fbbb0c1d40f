DROP INDEX source_by_message;
-- Of mails that share a Message-ID, the first is the one that others are copies of.
ALTER TABLE source NO FORCE ROW LEVEL SECURITY;
UPDATE source later SET message_id = NULL
WHERE refusal IS NULL AND EXISTS (
    SELECT FROM source first
    WHERE first.refusal IS NULL AND first.id < later.id AND first.tenant_id = later.tenant_id
      AND first.message_id = later.message_id AND first.sender IS NOT DISTINCT FROM later.sender
);
ALTER TABLE source FORCE ROW LEVEL SECURITY;
CREATE UNIQUE INDEX source_by_message ON source (tenant_id, md5(message_id || ' ' || coalesce(sender, '')))
    WHERE message_id IS NOT NULL AND refusal IS NULL;

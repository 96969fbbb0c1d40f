-- depends: 0021.successor
-- A person may say that a mail of a known Message-ID and sender is another one. Copies that come at the same moment are
-- kept apart by a lock.

DROP INDEX source_by_message;
CREATE INDEX source_by_message ON source (tenant_id, md5(message_id || ' ' || coalesce(sender, '')))
    WHERE message_id IS NOT NULL AND refusal IS NULL;

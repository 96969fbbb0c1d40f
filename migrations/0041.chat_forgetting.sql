-- depends: 0040.dead_letter_purge
-- What was said in a conversation goes with it, whoever deletes it: from the tasks of its messages, and from dead letters.

-- The watchdog deletes conversations, too, and may not write payloads: this acts as the owner. It runs before the
-- messages are deleted, which say whose tasks they are, and after the conversation is locked: nobody adds one meanwhile.
CREATE POLICY forgetting ON chat_message FOR SELECT TO counterfoil_owner USING (true);
CREATE POLICY forgetting ON task FOR UPDATE TO counterfoil_owner
    USING (true) WITH CHECK (payload_key IS NULL AND result IS NULL);
CREATE FUNCTION forget_conversation() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp
AS $body$
BEGIN
    -- A message stays in the place of what was said, for whoever sends the dead letter of such a task again.
    UPDATE task SET payload = '{"message": "(deleted)"}', payload_key = NULL, result = NULL
    WHERE id IN (SELECT job_id FROM chat_message WHERE session_id = OLD.id AND role = 'user');
    RETURN OLD;
END
$body$;
REVOKE ALL ON FUNCTION forget_conversation FROM PUBLIC;
CREATE TRIGGER forget BEFORE DELETE ON chat_session FOR EACH ROW EXECUTE FUNCTION forget_conversation();

ALTER TABLE task NO FORCE ROW LEVEL SECURITY;
ALTER TABLE chat_message NO FORCE ROW LEVEL SECURITY;
ALTER TABLE dead_letter NO FORCE ROW LEVEL SECURITY;
ALTER TABLE dead_letter DISABLE TRIGGER counted_when_it_changes;  -- they are as many as before
-- Tasks whose conversations were deleted by the watchdog: each had a message from its beginning.
UPDATE task t SET payload = '{"message": "(deleted)"}', payload_key = NULL, result = NULL
WHERE task_type = 'chat_completion' AND NOT EXISTS (SELECT FROM chat_message m WHERE m.job_id = t.id);
-- Bodies of tasks' messages, which their rows have; `payload.message` still says what they named.
UPDATE dead_letter SET payload = payload - 'dead_letter_queue_body'
WHERE worker = 'tasks' AND payload ? 'dead_letter_queue_body';
-- Those of messages that could be read, and not be settled.
UPDATE dead_letter d SET payload = payload || jsonb_build_object('body', CASE
    WHEN pg_input_is_valid(payload ->> 'body', 'jsonb')
    THEN ((payload ->> 'body')::jsonb || '{"payload": {"$left_out": "The task has it."}}')::text
    ELSE payload ->> 'body' END)
WHERE worker = 'tasks' AND work_id IS NULL AND payload ? 'body'
  AND metadata #>> '{last_error,type}' <> 'InvalidMessageError';
ALTER TABLE dead_letter ENABLE TRIGGER counted_when_it_changes;
ALTER TABLE dead_letter FORCE ROW LEVEL SECURITY;
ALTER TABLE chat_message FORCE ROW LEVEL SECURITY;
ALTER TABLE task FORCE ROW LEVEL SECURITY;

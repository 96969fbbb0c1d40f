DROP FUNCTION task_messages;
DROP POLICY owner_select ON outbox;
DROP TABLE chat_message, chat_session, payload_deletion, task;
DROP FUNCTION scrub_chat_tasks, enqueue_payload_deletion;

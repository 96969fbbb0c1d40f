DROP FUNCTION task_messages;
DROP POLICY composing ON outbox;
DROP TABLE chat_message, chat_session, payload_removal, task;
DROP FUNCTION forget_conversation, leave_payload;

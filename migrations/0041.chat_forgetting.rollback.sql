DROP TRIGGER forget ON chat_session;
DROP FUNCTION forget_conversation;
DROP POLICY forgetting ON task;
DROP POLICY forgetting ON chat_message;

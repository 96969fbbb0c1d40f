DROP TABLE chat_message;
DROP TABLE chat_session;

-- depends: 0033.task_retention
-- Conversations: a budget of their own, an end when their user wants it, and one when nobody uses them any more.

-- What is asked in conversations is counted beside what is asked for documents, and neither takes from the other.
ALTER TABLE llm_day
    ADD COLUMN chats integer NOT NULL DEFAULT 0 CHECK (chats >= 0),
    DROP CONSTRAINT llm_day_calls_check,
    ADD CONSTRAINT llm_day_calls_check CHECK (calls >= 0);
GRANT UPDATE (chats) ON llm_day TO counterfoil_worker;

-- When the last message was added, an answer or not.
ALTER TABLE chat_session ADD COLUMN used_at timestamptz NOT NULL DEFAULT now();
CREATE INDEX chat_session_by_use ON chat_session (used_at);
GRANT UPDATE (used_at), DELETE ON chat_session TO counterfoil_worker;
-- What its messages said goes from their tasks, too; the tasks themselves stay.
GRANT UPDATE (payload, payload_key) ON task TO counterfoil_worker;

-- The watchdog deletes conversations that nobody has used for three months, and sees no others.
CREATE POLICY past_keeping ON chat_session TO counterfoil_keeper
    USING (used_at < now() - interval '90 days') WITH CHECK (false);
GRANT SELECT (id, used_at), DELETE ON chat_session TO counterfoil_keeper;

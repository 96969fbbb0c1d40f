REVOKE SELECT (id), DELETE ON chat_session FROM counterfoil_keeper;
DROP POLICY past_keeping ON chat_session;
REVOKE UPDATE (payload, payload_key) ON task FROM counterfoil_worker;
REVOKE DELETE ON chat_session FROM counterfoil_worker;
ALTER TABLE chat_session DROP COLUMN used_at;
ALTER TABLE llm_day NO FORCE ROW LEVEL SECURITY;
DELETE FROM llm_day WHERE calls = 0;
ALTER TABLE llm_day FORCE ROW LEVEL SECURITY;
ALTER TABLE llm_day
    DROP COLUMN chats,
    DROP CONSTRAINT llm_day_calls_check,
    ADD CONSTRAINT llm_day_calls_check CHECK (calls > 0);

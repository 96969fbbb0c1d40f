REVOKE SELECT (id, created_at), DELETE ON llm_call FROM counterfoil_keeper;
DROP POLICY past_keeping ON llm_call;
DROP INDEX llm_call_by_age;

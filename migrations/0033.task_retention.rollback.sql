REVOKE SELECT (ended_at), DELETE ON task FROM counterfoil_keeper;
DROP POLICY past_keeping ON task;
DROP INDEX task_by_end;

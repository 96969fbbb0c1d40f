DROP FUNCTION task_messages;
DROP POLICY composing ON outbox;
DROP TABLE work_attempt;
DROP TABLE task;

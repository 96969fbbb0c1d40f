DROP TRIGGER take_payload_away ON task;
DROP TRIGGER leave_payload ON task;
DROP FUNCTION leave_payload;
DROP TABLE payload_removal;

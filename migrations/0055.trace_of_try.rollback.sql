ALTER TABLE work_attempt DROP COLUMN trace_id;

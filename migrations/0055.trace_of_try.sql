-- depends: 0054.audit_salt
-- A try is kept with its X-Ray trace, where there is one: whoever follows a dead letter finds it from there.

ALTER TABLE work_attempt ADD COLUMN trace_id text CHECK (trace_id ~ '^1-[0-9a-f]{8}-[0-9a-f]{24}$');

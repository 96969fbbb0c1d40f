-- depends: 0032.task_allowance
-- Tasks that succeeded or were cancelled are kept for three months. One that failed is kept as its dead letter is.

CREATE INDEX task_by_end ON task (ended_at) WHERE status = 'succeeded' OR status IS NULL;
-- The watchdog deletes what is past keeping. It has the rights of delivery, for which all rows are there: a policy that
-- restricts keeps the younger ones from it.
CREATE POLICY past_keeping ON task AS RESTRICTIVE FOR DELETE TO counterfoil_keeper
    USING ((status = 'succeeded' OR status IS NULL) AND ended_at < now() - interval '90 days');
GRANT SELECT (ended_at), DELETE ON task TO counterfoil_keeper;

REVOKE SELECT (id, worker, work_id, outcome) ON work_attempt FROM counterfoil_delivery;
DROP POLICY delivery_sees ON work_attempt;
ALTER TABLE work_attempt NO FORCE ROW LEVEL SECURITY;
DELETE FROM work_attempt WHERE outcome = 'lost';
ALTER TABLE work_attempt FORCE ROW LEVEL SECURITY;
ALTER TABLE work_attempt DROP CONSTRAINT work_attempt_outcome_check;
ALTER TABLE work_attempt ADD CONSTRAINT work_attempt_outcome_check
    CHECK (outcome IN ('succeeded', 'skipped', 'retry', 'deferred', 'failed'));

-- depends: 0034.chat_keeping
-- Tries that were lost with their worker are written down by whoever finds them; who waited for a turn is told by tries.

ALTER TABLE work_attempt DROP CONSTRAINT work_attempt_outcome_check;
ALTER TABLE work_attempt ADD CONSTRAINT work_attempt_outcome_check
    CHECK (outcome IN ('succeeded', 'skipped', 'retry', 'deferred', 'failed', 'lost'));

-- Delivery sees what became of the tries of all tenants' work, and nothing that they said.
CREATE POLICY delivery_sees ON work_attempt FOR SELECT TO counterfoil_delivery USING (true);
GRANT SELECT (id, worker, work_id, outcome) ON work_attempt TO counterfoil_delivery;

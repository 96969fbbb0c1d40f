DROP TABLE dead_letter_operation_item;
DROP TABLE dead_letter_operation;
REVOKE UPDATE (settled_as, settled_at) ON dead_letter_group FROM counterfoil_worker;
ALTER TABLE dead_letter_group DROP settled_as, DROP settled_at;

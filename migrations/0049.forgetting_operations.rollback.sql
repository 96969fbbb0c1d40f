REVOKE SELECT (operation_id, number), DELETE ON dead_letter_operation_item FROM counterfoil_keeper;
DROP POLICY past_keeping ON dead_letter_operation_item;

-- depends: 0048.document_word
-- What became of the letters of an operation is deleted bit by bit, before the operation: at once it may be millions.

CREATE POLICY past_keeping ON dead_letter_operation_item TO counterfoil_keeper
    USING (EXISTS (SELECT FROM dead_letter_operation o
                   WHERE o.id = operation_id AND o.ended_at < now() - interval '90 days')) WITH CHECK (false);
GRANT SELECT (operation_id, number), DELETE ON dead_letter_operation_item TO counterfoil_keeper;

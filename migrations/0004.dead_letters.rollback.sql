DROP TABLE operation_item, dead_letter_count, dead_letter_word,
           dead_letter_group, dead_letter_audit, dead_letter, operation;
DROP FUNCTION count_dead_letters;

DROP INDEX dead_letter_by_end;

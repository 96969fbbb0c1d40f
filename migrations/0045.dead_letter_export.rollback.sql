DROP TABLE dead_letter_export;

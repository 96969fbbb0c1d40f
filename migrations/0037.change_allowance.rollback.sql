DROP TABLE change_allowance;

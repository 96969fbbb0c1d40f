DROP TABLE task_allowance;

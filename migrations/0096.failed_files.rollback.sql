DROP INDEX dead_letter_of_file;
DROP INDEX acquisition_job_failed;

DROP TABLE output_job;
DROP FUNCTION count_told;
DROP TABLE destination_secret;
DROP TABLE destination;

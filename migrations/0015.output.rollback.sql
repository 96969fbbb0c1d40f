DROP TABLE output_job;
DROP TABLE destination_secret;
DROP TABLE destination;

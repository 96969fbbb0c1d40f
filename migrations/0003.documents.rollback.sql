DROP TABLE ingestion_job;
DROP TABLE document;
DROP TABLE source;
DROP TABLE acquisition_job;

DROP TRIGGER count_on_finish ON offer_shard;
DROP TRIGGER count_on_finish ON task;
DROP TRIGGER count_on_finish ON output_job;
DROP TRIGGER count_on_finish ON cluster_diagnostics;
DROP TRIGGER count_on_finish ON document;
DROP TRIGGER count_on_finish ON ingestion_job;
DROP TRIGGER count_on_finish ON acquisition_job;
DROP FUNCTION count_finished_work;
DROP TABLE queue_pause, queue_minute_stats, finished_work;

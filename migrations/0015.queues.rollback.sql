DROP TRIGGER counted_when_it_ends ON offer_shard;
DROP TRIGGER counted_when_it_ends ON task;
DROP TRIGGER counted_when_it_ends ON output_job;
DROP TRIGGER counted_when_it_ends ON cluster_diagnostics;
DROP TRIGGER counted_when_it_ends ON document;
DROP TRIGGER counted_when_it_ends ON ingestion_job;
DROP TRIGGER counted_when_it_ends ON acquisition_job;
DROP FUNCTION count_ended_work;
DROP TABLE queue_pause, queue_minute, work_ended;

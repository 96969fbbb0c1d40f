DROP TABLE mapping_pause;
DROP TABLE breaker;

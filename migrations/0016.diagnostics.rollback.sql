DROP TABLE tolerance;
DROP TABLE cluster_diagnostics;

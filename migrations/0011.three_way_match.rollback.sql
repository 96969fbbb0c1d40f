DROP TABLE variance_decision, tolerance, cluster_diagnostics;

"""Demo: processes sample documents in the local cloud and compares results with expectations."""

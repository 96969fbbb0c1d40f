"""Demo: processes sample documents in the local cloud, and checks the results."""

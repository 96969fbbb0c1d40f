"""Acquisition: from a file in S3 to a source and its documents."""

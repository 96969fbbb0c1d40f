"""Worker `acquisition`: creates a source and documents from a file in S3."""

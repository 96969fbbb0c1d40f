"""Worker `bulk`: runs operations."""

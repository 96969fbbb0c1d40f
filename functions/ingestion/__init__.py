"""Ingestion: from a document's file to its structured data."""

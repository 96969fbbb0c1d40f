"""Worker `ingestion`: extracts structured data from a document's file."""

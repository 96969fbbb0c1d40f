"""Worker `document_output`: delivers results to the destinations of their tenant."""

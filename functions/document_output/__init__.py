"""Worker `document_output`: delivers results to a tenant's destinations."""

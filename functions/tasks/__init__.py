"""Worker `tasks`: runs tasks submitted through the API."""

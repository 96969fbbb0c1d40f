"""Worker `tasks`: runs tasks submitted over the API."""

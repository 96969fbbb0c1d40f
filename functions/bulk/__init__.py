"""Worker `bulk`: runs operations on dead letters and documents."""

"""Tasks that callers submit through the API, with registered types, attempts and results."""

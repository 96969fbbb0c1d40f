"""Tasks: work submitted over the API, with registered types, attempts and results."""

"""Tasks submitted through the API, with registered types, attempts and results."""

"""Tasks: work that programs hand in over the API, of types that are registered here, and what comes of it."""

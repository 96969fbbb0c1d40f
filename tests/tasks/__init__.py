"""Tasks: types, payloads, and what is kept of each."""

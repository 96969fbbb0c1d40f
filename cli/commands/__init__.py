"""Commands that are clients of the HTTP API."""

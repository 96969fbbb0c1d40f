"""The HTTP API: what people and their programs ask for."""

"""Business documents: what they say, how it is read, and which of them belong together."""

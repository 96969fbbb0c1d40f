"""Diagnostics: what the documents of a cluster come to, held against one another."""

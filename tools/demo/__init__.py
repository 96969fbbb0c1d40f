"""Feeds sample documents to the local cloud and compares results with what the sample says."""

"""Matching measured: links and clusters, peers, text similarity, waiting for a language model."""

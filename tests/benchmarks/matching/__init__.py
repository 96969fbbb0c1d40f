"""Benchmarks of matching: quality, other libraries, text similarity and LLM latency."""

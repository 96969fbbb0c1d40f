"""Matching benchmarks: quality, other libraries, text similarity and LLM latency."""

"""Matching benchmarks: quality, comparison with other libraries, text similarity and LLM latency."""

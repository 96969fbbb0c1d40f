"""Benchmarks, which run by Makefile targets and not with the tests."""

"""Measurements over real data: not run with the tests, each by a line of the Makefile."""

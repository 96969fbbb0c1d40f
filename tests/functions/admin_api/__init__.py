"""Tests of the API function."""

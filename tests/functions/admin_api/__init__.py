"""Tests for the API function."""

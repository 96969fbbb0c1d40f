"""Tests for the migrate function."""

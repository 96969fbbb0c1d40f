"""Tests of the migrate function."""

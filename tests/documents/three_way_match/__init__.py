"""Tests of the three-way match."""

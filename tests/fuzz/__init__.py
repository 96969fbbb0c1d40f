"""Fuzz tests for every parser of untrusted bytes."""

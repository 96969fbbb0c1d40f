"""Fuzzing of every parser that reads untrusted bytes."""

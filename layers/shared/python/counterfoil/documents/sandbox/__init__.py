"""Parsers for untrusted files.

Each call runs in a child process with memory and time limits.
"""

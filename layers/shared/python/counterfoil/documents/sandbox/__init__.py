"""Parsers of untrusted files, each call in a child process with limits of memory and time."""

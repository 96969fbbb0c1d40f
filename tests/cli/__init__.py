"""Tests for the CLI."""

"""Tests for conversations."""

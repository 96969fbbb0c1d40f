"""Tests of the database migrations."""

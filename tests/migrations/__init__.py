"""Tests of the database's migrations."""

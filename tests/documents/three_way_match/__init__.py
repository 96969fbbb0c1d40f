"""Tests of variances."""

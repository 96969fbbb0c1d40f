"""Matching: from structured data to edges and clusters."""

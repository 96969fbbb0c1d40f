"""Matching: from structured data to matches and clusters."""

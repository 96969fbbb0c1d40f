"""Delivery: takes every message of a queue to exactly one outcome, and loses none on the way."""

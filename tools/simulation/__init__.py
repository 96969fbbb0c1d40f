"""Deterministic, seeded simulation of the delivery engine with injected faults."""

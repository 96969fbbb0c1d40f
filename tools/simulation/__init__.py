"""Deterministic simulation of the delivery engine with injected faults, driven by a seed."""

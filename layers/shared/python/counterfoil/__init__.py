"""Counterfoil's shared layer: modules used by several workers."""

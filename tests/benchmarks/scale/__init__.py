"""Measure matching in large archives: search time, recall and throughput.

The generated archive contains purchase orders and their follow-up documents, with typos in names and references. Its
many tenants have very different sizes. It is for measuring indexes and query plans, not the quality of decisions.
"""

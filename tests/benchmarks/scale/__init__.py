"""Matching in large archives: search time, recall and throughput.

The archive is generated: purchase orders and their follow-up documents, for many tenants of very different sizes, with
typos in names and references. It measures indexes and query plans, not the quality of decisions.
"""

"""Matching in a large archive: how long a search takes, what it finds, and how many documents are matched in a second.

The archive is made up: deals of an order and what follows from it, of many tenants of very different size, with typing
errors in names and references. It says nothing about how well pairs are decided, and much about indexes and plans.
"""

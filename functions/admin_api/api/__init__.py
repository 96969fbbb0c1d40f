"""Resources of the HTTP API.

Each module has the routes, models and behavior of one resource.
"""

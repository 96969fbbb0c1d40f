"""Resources of the HTTP API: routes, models and behavior of each in one module."""

"""Delivers a tenant's results to its destinations: signed webhooks, and exports to S3."""

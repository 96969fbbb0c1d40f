"""Delivers results of a tenant to its destinations: signed webhooks, and exports to S3."""

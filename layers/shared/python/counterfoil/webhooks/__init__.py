"""Delivery of a tenant's results through signed webhooks and exports to S3."""

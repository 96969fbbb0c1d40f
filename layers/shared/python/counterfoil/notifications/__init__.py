"""Failure notifications by Slack and email, sent at least once in digests."""

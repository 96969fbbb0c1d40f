"""Failure notifications by Slack and email, sent at least once and grouped into digests."""

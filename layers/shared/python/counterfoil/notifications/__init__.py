"""Failure notifications by Slack and e-mail: at least once, grouped into digests."""

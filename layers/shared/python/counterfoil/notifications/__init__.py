"""Telling people of failures: notices by Slack and e-mail, at least once, storms of one kind in one digest."""

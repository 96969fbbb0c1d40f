"""Watchdog: sends lost messages and runs maintenance, every minute."""

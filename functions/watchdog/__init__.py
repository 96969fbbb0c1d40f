"""Watchdog: resends lost messages and runs maintenance every minute."""

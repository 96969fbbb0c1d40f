"""The watchdog: sends what a crash left behind, every minute."""

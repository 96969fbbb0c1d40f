"""Telling people of failures: notices by Slack and e-mail, at least once, storms of one kind in one digest."""

from counterfoil.notify.channel import Channel
from counterfoil.notify.notifier import CHANNELS, Notified, Notifier

__all__ = ["CHANNELS", "Channel", "Notified", "Notifier"]

"""Message delivery: each message ends in exactly one outcome, and none is lost."""

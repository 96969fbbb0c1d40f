"""Worker `offers_scheduler`: pins pools of due daily offers, and queues their shards."""

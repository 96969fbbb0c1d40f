"""Worker `offers_scheduler`: pins pools of due offers and queues their shards."""

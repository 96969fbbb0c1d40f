"""Worker `offers_scheduler`: pins the pools of due daily offers and queues their shards."""

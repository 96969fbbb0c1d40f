"""Worker `offers`: computes a day's offers for a shard of users."""

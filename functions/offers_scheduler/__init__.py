"""Worker `offers_scheduler`: pins what is due of daily offers, and queues it."""

"""Worker `dead_letters`: settles messages in dead-letter queues."""

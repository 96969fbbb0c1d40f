"""Worker `dead_letters`: settles messages of the dead-letter queues."""

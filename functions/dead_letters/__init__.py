"""Dead letters: settles what the dead-letter queues hold."""

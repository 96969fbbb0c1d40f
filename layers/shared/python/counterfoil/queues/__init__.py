"""The queues of the workers as people see them: how full they are, what is done, and which of them are paused."""

"""Conversations: order, once, whose they are, and what the model gets to see."""

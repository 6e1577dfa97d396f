"""Queues, and the nodes that come for them."""

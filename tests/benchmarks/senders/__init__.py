"""Senders and queues, each in a process of its own, in front of one cheap provider."""

"""Engines: the processes that run a user's code, and the node process that forks them."""

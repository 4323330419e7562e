"""The parts of a pool: what its owner decides (pure), what carries it out, and what a worker does.

The owner is the process that made the pool. It holds one connection to each worker, so it knows at every moment which
worker has which items. That is what the rest stands on: what a dead worker held runs again, what waits behind a long
item is taken back for a worker that is idle, and results are told once.
"""

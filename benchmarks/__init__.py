"""FiberNB beside its peers: ``python -m benchmarks --help``."""

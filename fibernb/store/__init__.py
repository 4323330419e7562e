"""The object store of a host: large values in memory that all of its processes share."""

"""The process that a cluster is: it feeds what arrives to the scheduler and carries out what that says."""

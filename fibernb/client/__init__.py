"""The client: sessions, references, remote functions, and the cluster as users see it."""

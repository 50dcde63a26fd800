"""How far the replication is, for those who wait for it."""

"""The layer `kafka_journal`: what its replicator has written, heads against events."""

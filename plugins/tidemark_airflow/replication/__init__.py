"""Waiting for the replication of kafka-journal's topics."""

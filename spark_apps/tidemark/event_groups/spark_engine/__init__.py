"""The engine for events with many rows: Spark reads, keeps, writes and restores them."""

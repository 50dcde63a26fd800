"""The layer `kafka_journal`: compares the heads with the events in kafka-journal's tables."""

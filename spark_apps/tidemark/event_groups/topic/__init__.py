"""Groups out of a Kafka topic: its records, what becomes of them, and how far a stream is."""

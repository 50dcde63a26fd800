"""Groups from a Kafka topic: its records, their submission, and the position of a stream."""

"""The embedded Kafka: a real broker as a child process."""

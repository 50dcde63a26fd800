"""Reads Kafka: topics, their offsets and their records."""

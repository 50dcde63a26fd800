"""The layer `kafka_topic`: compares the records of topics with kafka-journal's tables."""

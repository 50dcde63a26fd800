"""The layer `kafka_topic`: the records of topics, against kafka-journal's tables."""

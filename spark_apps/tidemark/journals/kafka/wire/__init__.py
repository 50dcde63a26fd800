"""Records of kafka-journal: what its actions, events and metadata look like in bytes."""

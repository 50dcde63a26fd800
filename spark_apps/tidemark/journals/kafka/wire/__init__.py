"""The wire format of kafka-journal's records: actions, events and metadata as bytes."""

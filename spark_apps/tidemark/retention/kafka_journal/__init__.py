"""purge of kafka-journal's expired journals: what upstream does by a Purge record, in Cassandra."""

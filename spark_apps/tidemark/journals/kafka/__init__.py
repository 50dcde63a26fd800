"""kafka-journal's own tables, as its replicator creates and writes them."""

"""kafka-journal's own tables, as its replicator makes and writes them."""

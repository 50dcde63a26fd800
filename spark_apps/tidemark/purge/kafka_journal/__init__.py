"""purge of kafka-journal's expired journals, by Purge records as upstream sends them."""

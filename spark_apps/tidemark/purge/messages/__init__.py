"""Deletes of events: metadata first, then whole partitions, then ranges, as Pekko's actors do."""

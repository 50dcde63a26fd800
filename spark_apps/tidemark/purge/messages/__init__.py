"""Deletes events as Pekko's actors do: metadata first, then whole partitions, then ranges."""

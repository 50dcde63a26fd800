"""Step 2, read: events of the planned time buckets, and the keys of what else is unread."""

"""Tag views written again from messages: all, some ids, some tags, some time buckets."""

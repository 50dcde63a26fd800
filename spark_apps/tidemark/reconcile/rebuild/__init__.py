"""rebuild: writes tag views anew from messages: all, some ids, some tags, some time buckets."""

"""The reading side: topics, their offsets and their records."""

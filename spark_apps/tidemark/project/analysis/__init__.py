"""Spark's own opinion of a definition, before any event is read."""

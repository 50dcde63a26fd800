"""Checks a definition with Spark's parser and analyzer, before any event is read."""

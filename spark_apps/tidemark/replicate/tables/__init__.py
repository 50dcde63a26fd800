"""Writes kafka-journal's tables, one module for each kind of write."""

"""Jars by coordinate, each checked against the SHA-256 of its lock."""

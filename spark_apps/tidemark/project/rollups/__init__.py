"""Rollups: whether one is up to date with the read model that it reads, and how it is made."""

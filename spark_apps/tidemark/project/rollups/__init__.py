"""Rollups: checks whether they are up to date with their source, and makes them."""

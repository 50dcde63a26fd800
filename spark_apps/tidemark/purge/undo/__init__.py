"""Writes deleted rows back from the copies that were saved before the deletion."""

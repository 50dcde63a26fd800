"""Targets in Tidemark's own tables: old rows that nothing reads any more."""

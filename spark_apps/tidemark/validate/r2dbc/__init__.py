"""The checks of a journal in PostgreSQL."""

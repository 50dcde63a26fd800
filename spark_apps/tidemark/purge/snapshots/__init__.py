"""Deletes of snapshots: those beyond the newest few, and older than a date."""

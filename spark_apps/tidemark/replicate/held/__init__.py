"""Releases, replays and mends records in quarantine."""

"""Delete events, snapshots and tag views of persistence ids, as Pekko's Cleanup does."""

from __future__ import annotations

from tidemark.command_line import cleanup

if __name__ == "__main__":
    cleanup.start()

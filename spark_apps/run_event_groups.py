"""Execute event groups: statements over Cassandra as a whole, or rolled back."""

from __future__ import annotations

from tidemark.command_line import run_event_groups

if __name__ == "__main__":
    run_event_groups.start()

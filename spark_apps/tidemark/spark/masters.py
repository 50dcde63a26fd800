"""Where a master runs the tasks of an application."""

from __future__ import annotations


def is_local(master: str) -> bool:
    """Return whether all tasks run in the driver's own process."""
    return master.startswith("local")

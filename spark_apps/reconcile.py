"""List, check, repair, delete, rebuild, truncate and re-bucket the tag views."""

from __future__ import annotations

from tidemark.command_line import reconcile

if __name__ == "__main__":
    reconcile.start()

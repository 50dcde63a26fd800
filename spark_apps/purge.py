"""Purge what the policies let go of. A dry run unless --apply is given."""

from __future__ import annotations

from tidemark.command_line import purge

if __name__ == "__main__":
    purge.start()

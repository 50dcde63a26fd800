"""Check sequence continuity of a window: messages and tag views, before anything downstream."""

from __future__ import annotations

from tidemark.command_line import validate

if __name__ == "__main__":
    validate.start()

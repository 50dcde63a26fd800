"""Bring the read models up to a window, and manage the projections that make them."""

from __future__ import annotations

from tidemark.command_line import project

if __name__ == "__main__":
    project.start()

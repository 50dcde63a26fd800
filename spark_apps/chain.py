"""Bring tag views, checks and read models up to a window, in one Spark application."""

from __future__ import annotations

from tidemark.command_line import chain

if __name__ == "__main__":
    chain.start()

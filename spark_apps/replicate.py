"""Replicate topics of kafka-journal into its tables: journal, metajournal, pointer2."""

from __future__ import annotations

from tidemark.command_line import replicate

if __name__ == "__main__":
    replicate.start()

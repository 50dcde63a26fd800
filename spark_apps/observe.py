"""Measure lag and freshness, and keep the alarms. Spark is not started."""

from __future__ import annotations

from tidemark.command_line import observe

if __name__ == "__main__":
    observe.start()

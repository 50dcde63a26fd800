"""Show the state of the system. Nothing is written, and Spark is not started."""

from __future__ import annotations

from tidemark.command_line import status

if __name__ == "__main__":
    status.start()

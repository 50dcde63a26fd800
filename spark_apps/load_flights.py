"""Load the demo's journal: flights that left New York in 2013, as Pekko would have written them."""

from __future__ import annotations

from tidemark.command_line import load_flights

if __name__ == "__main__":
    load_flights.start()

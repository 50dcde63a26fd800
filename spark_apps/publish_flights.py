"""Append the demo's flights to a topic of Kafka, as kafka-journal would have."""

from __future__ import annotations

from tidemark.command_line import publish_flights

if __name__ == "__main__":
    publish_flights.start()

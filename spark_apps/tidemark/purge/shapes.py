"""The shape of the frame that says what is deleted, and saved before."""

from __future__ import annotations

from tidemark.journals.pekko.shapes import PARTITIONS
from tidemark.spark.shapes import Shape

DELETES: Shape = {**PARTITIONS, "to": "bigint", "is_whole": "boolean", "events": "bigint"}
"""One delete of a partition: as a whole, or of the events up to `to`; `events` that it hits."""
